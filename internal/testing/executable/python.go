package executable

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// NameInterpreter replaces "python3" in a file of settings by the interpreter that it starts. On some machines python3 is a script
// that looks for the interpreter, which takes ten times as long as most programs of tests.
func NameInterpreter(t testing.TB, file string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "python3", "-c", "import sys; print(sys.executable)").Output()
	var text []byte
	if err == nil {
		text, err = os.ReadFile(file)
	}
	if err == nil {
		text = bytes.ReplaceAll(text, []byte(`"python3"`), strconv.AppendQuote(nil, strings.TrimSpace(string(out))))
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
