package codex_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// constants gives the string constants of the package whose names begin with
// prefix, and every call of a method by that name with a literal is an error.
func constants(t *testing.T, prefix string) map[string]string {
	t.Helper()
	out := map[string]string{}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range files {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), entry.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, name := range n.Names {
					if value, ok := literal(n.Values, i); ok && strings.HasPrefix(name.Name, prefix) {
						out[name.Name] = value
					}
				}
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Call" && len(n.Args) > 1 {
					if _, named := n.Args[1].(*ast.Ident); !named {
						t.Errorf("%s: a method is called that is no constant", entry.Name())
					}
				}
			case *ast.KeyValueExpr:
				key, _ := n.Key.(*ast.Ident)
				if _, isText := n.Value.(*ast.BasicLit); key != nil && key.Name == "Method" && isText {
					t.Errorf("%s: a method is sent that is no constant", entry.Name())
				}
			}
			return true
		})
	}
	return out
}

func literal(values []ast.Expr, i int) (string, bool) {
	if i >= len(values) {
		return "", false
	}
	b, ok := values[i].(*ast.BasicLit)
	if !ok || b.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(b.Value)
	return s, err == nil
}

// The methods that run something outside of every sandbox, write the user's
// configuration or files, or steer a turn, are not among these. command/exec is
// for the probes of Prove, in the very sandbox that they probe.
func TestOnlyTheseMethodsAreEverSent(t *testing.T) {
	var got []string
	for _, method := range constants(t, "method") {
		got = append(got, method)
	}
	slices.Sort(got)
	want := []string{"account/read", "command/exec", "config/read", "initialize", "initialized", "thread/start", "thread/turns/list", "turn/interrupt", "turn/start"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
