//go:build fault

package e2e

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// covered checks that every fault point of the source was hit.
func covered(t *testing.T, hit map[string]bool) {
	t.Helper()
	wanted := map[string]*regexp.Regexp{}
	var passed []string            // packages that pass fault.Point on
	named := map[string][]string{} // the constants point… of a package
	err := filepath.WalkDir("../internal", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if name, ok := pointOf(n); ok {
				wanted[path+": "+name] = regexp.MustCompile("^" + name + "$")
			}
			if passesPoint(n) {
				passed = append(passed, filepath.Dir(path))
			}
			if k, ok := n.(*ast.ValueSpec); ok && len(k.Values) == len(k.Names) {
				for i, name := range k.Names {
					if v, ok := k.Values[i].(*ast.BasicLit); ok && strings.HasPrefix(name.Name, "point") {
						named[filepath.Dir(path)] = append(named[filepath.Dir(path)], patternOf(v))
					}
				}
			}
			if k, ok := n.(*ast.ValueSpec); ok && path == filepath.Join("..", "internal", "provider", "provider.go") && k.Type != nil && fmt.Sprint(k.Type) == "EventKind" {
				kind, _ := strconv.Unquote(k.Values[0].(*ast.BasicLit).Value)
				for _, when := range []string{"before", "after"} {
					wanted["the event "+kind] = regexp.MustCompile("^" + regexp.QuoteMeta("event."+kind+"."+when) + "$")
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range passed {
		// Where the function is a value its calls cannot be found, but the names
		// of the points can.
		if len(named[dir]) == 0 {
			t.Errorf("%s passes fault.Point on, so its points are to be constants whose names begin with point", dir)
		}
		for _, name := range named[dir] {
			wanted[dir+": "+name] = regexp.MustCompile("^" + name + "$")
		}
	}
	if len(wanted) < 30 {
		t.Errorf("only %d points were found in the source", len(wanted))
	}
	names := make([]string, 0, len(hit))
	for p := range hit {
		names = append(names, p)
	}
	for where, pattern := range wanted {
		if !slices.ContainsFunc(names, pattern.MatchString) {
			t.Errorf("no job of the sweep reaches the point of %s", where)
		}
	}
}

// pointOf gives the name in a call of fault.Point as a pattern.
func pointOf(n ast.Node) (string, bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return "", false
	}
	if !isPoint(call.Fun) {
		return "", false
	}
	return patternOf(call.Args[0]), true
}

// passesPoint reports a use of fault.Point as a value.
func passesPoint(n ast.Node) bool {
	var values []ast.Expr
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		values = []ast.Expr{n.Value}
	case *ast.AssignStmt:
		values = n.Rhs
	case *ast.ValueSpec:
		values = n.Values
	case *ast.CallExpr:
		values = n.Args
	case *ast.ReturnStmt:
		values = n.Results
	case *ast.CompositeLit:
		values = n.Elts
	}
	return slices.ContainsFunc(values, isPoint)
}

func isPoint(e ast.Expr) bool {
	f, ok := e.(*ast.SelectorExpr)
	return ok && f.Sel.Name == "Point" && fmt.Sprint(f.X) == "fault"
}

func patternOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		if err != nil {
			return ".+"
		}
		return regexp.QuoteMeta(s)
	case *ast.BinaryExpr:
		return patternOf(e.X) + patternOf(e.Y)
	}
	return ".+"
}
