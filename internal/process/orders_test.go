package process

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOrdersArriveAsTheyWereGivenOrNotAtAll(t *testing.T) {
	for name, o := range map[string]orders{
		"all":                     {Path: "/bin/sh", Argv: []string{"sh", "-c", "true"}, Env: []string{"A=1"}, Dir: "/", Writes: []string{"/tmp"}},
		"nothing":                 {},
		"nil and none":            {Argv: []string{}, Env: nil, Writes: []string{}},
		"empty texts":             {Path: "", Argv: []string{"", ""}, Env: []string{""}},
		"bytes that are no UTF-8": {Path: "/\xff", Argv: []string{"\x00", "\n"}, Dir: "\xfe\x80"},
		"a long text":             {Path: "/x", Argv: []string{string(make([]byte, 1<<20))}},
	} {
		t.Run(name, func(t *testing.T) {
			b := o.encode()[4:]
			got, ok := decode(b)
			if diff := cmp.Diff(o, got); diff != "" || !ok {
				t.Errorf("%v, (-want +got):\n%s", ok, diff)
			}
			for n := range min(len(b), 64) {
				if _, ok := decode(b[:n]); ok {
					t.Errorf("the first %d of %d bytes are taken for orders", n, len(b))
				}
			}
			if _, ok := decode(append(b, 0)); ok {
				t.Error("orders with something behind them are taken")
			}
		})
	}
}

func TestWhatIsNoOrderIsNotTaken(t *testing.T) {
	for name, b := range map[string]string{
		"a length beyond the end":           "\x03\x7fx",
		"a list beyond the end":             "\x7f\x01x",
		"a number that does not end":        "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
		"more entries than there are bytes": "\xff\xff\xff\xff\x0f",
		"a path and no folder":              "\x02\x01x\x00\x00\x00",
	} {
		if o, ok := decode([]byte(b)); ok {
			t.Errorf("%s is taken for %+v", name, o)
		}
	}
}
