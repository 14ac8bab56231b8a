package api_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"signalbox/internal/api"
)

var update = flag.Bool("update", false, "write api/openapi.json anew")

const documentFile = "../../api/openapi.json"

func TestTheCommittedDocumentIsThatOfTheOperations(t *testing.T) {
	got, err := api.Document()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(documentFile, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("api/openapi.json is not what the code describes: run go test ./internal/api -run Document -update and review the difference")
	}
}
