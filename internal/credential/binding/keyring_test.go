package binding

import (
	"errors"
	"strings"
	"testing"

	"github.com/zalando/go-keyring"

	"signalbox/internal/coord"
)

func TestTheKeyringHoldsAValueUntilItIsRemoved(t *testing.T) {
	keyring.MockInit() // the user's own keyring is none of a test's business
	b := New(map[string]Source{"scout": {Keyring: true, Origin: peer}}, Options{})
	none := func() {
		t.Helper()
		if _, err := b.Token("scout", peer); coord.CodeOf(err) != coord.Forbidden || !strings.Contains(err.Error(), "credential set scout") {
			t.Errorf("without a value: %v", err)
		}
	}
	none()
	for _, want := range []string{secret, "tok-rotated-0987654321"} {
		if err := Keep("scout", want); err != nil {
			t.Fatal(err)
		}
		if got, err := b.Token("scout", peer); err != nil || got != want {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if got, err := keyring.Get("signalbox", "credential:scout"); err != nil || got != "tok-rotated-0987654321" {
		t.Errorf("the entry: %q, %v", got, err)
	}
	if err := Forget("scout"); err != nil {
		t.Fatal(err)
	}
	none()
	if err := Forget("scout"); coord.CodeOf(err) != coord.NotFound {
		t.Errorf("removing again: %v", err)
	}
	if err := Keep("scout", secret+"\n"); coord.CodeOf(err) != coord.Invalid {
		t.Errorf("keeping a line break: %v", err)
	}
	for _, name := range []string{"", "../x", "Scout", "http://127.0.0.1:7717"} {
		if Keep(name, secret) == nil || Forget(name) == nil {
			t.Errorf("%q is a name", name)
		}
	}
}

func TestAKeyringThatFailsLeavesTheCredentialWithoutAValue(t *testing.T) {
	keyring.MockInitWithError(errors.New("locked: " + secret))
	b := New(map[string]Source{"scout": {Keyring: true, Origin: peer}}, Options{})
	if _, err := b.Token("scout", peer); coord.CodeOf(err) != coord.Unavailable || strings.Contains(err.Error(), secret) {
		t.Errorf("got %v", err)
	}
	if err := Keep("scout", secret); coord.CodeOf(err) != coord.Unavailable || strings.Contains(err.Error(), secret) {
		t.Errorf("keeping: %v", err)
	}
	if err := Forget("scout"); coord.CodeOf(err) != coord.Unavailable {
		t.Errorf("removing: %v", err)
	}
}
