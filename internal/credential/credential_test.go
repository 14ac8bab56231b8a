package credential

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zalando/go-keyring"

	"signalbox/internal/coord"
)

const here = "http://127.0.0.1:7717"

func TestATokenIsFoundWhereItWasKept(t *testing.T) {
	keyring.MockInit() // the user's own keyring is none of a test's business
	dir := filepath.Join(t.TempDir(), "new")
	if _, err := Find(dir, here); coord.CodeOf(err) != coord.Unauthenticated || !strings.Contains(err.Error(), "signalbox login") {
		t.Errorf("without a token: %v", err)
	}
	if !KeyringWorks() {
		t.Fatal("the keyring does not work")
	}
	if err := KeepInKeyring(here, "one"); err != nil {
		t.Fatal(err)
	}
	if got, err := Find(dir, here); err != nil || got != "one" {
		t.Errorf("from the keyring: %q, %v", got, err)
	}
	if _, err := Find(dir, "http://127.0.0.1:1"); coord.CodeOf(err) != coord.Unauthenticated {
		t.Errorf("for another address: %v", err)
	}
	for _, token := range []string{"two", "three"} {
		if err := KeepInFile(dir, token); err != nil {
			t.Fatal(err)
		}
		if got, err := Find(dir, here); err != nil || got != token {
			t.Errorf("from the file: %q, %v", got, err)
		}
	}
	info, err := os.Stat(File(dir))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("in the directory: %v, %v", left, err)
	}
	if inKeyring, inFile, err := Forget(dir, here); !inKeyring || !inFile || err != nil {
		t.Errorf("forgetting gave %v, %v, %v", inKeyring, inFile, err)
	}
	if inKeyring, inFile, err := Forget(dir, here); inKeyring || inFile || err != nil {
		t.Errorf("forgetting again gave %v, %v, %v", inKeyring, inFile, err)
	}
}

func TestAKeyringThatFailsIsNoticedBeforeALinkIsUsed(t *testing.T) {
	keyring.MockInitWithError(os.ErrPermission)
	if KeyringWorks() {
		t.Error("it works")
	}
	if err := KeepInKeyring(here, "secret-token"); coord.CodeOf(err) != coord.Unavailable || strings.Contains(err.Error(), "secret-token") {
		t.Errorf("keeping gave %v", err)
	}
}
