package httpworld_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/executable"
	"github.com/dalsegno/segno/world/httpworld"
)

// copyPond copies the example for worlds in other languages, and returns its directory.
func copyPond(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../experiments/pond")); err != nil {
		t.Fatal(err)
	}
	executable.NameInterpreter(t, filepath.Join(dir, httpworld.ConfigFile))
	return dir
}

// TestWorldInPython checks the example for worlds in other languages.
func TestWorldInPython(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	passed := 0
	err := httpworld.Check(t.Context(), copyPond(t), 1, func(check string, defect error) {
		passed++
		if defect != nil {
			t.Errorf("%s: %v", check, defect)
		}
	})
	if err != nil || passed < 10 {
		t.Errorf("%d checks ran: %v", passed, err)
	}
}

// mistakes are defects that are easy to make in a world, as changes of the example. Each has the check that must find
// it, and a part of the check's message.
var mistakes = map[string]struct{ check, from, to, text string }{
	"the random source is not saved": {"Restore", `world.random.setstate((version, tuple(state), gauss))`, `pass`, "did not begin with the document"},
	"the chat is not restored":       {"Chat", `doc["agents"], doc["chat"]`, `doc["agents"], []`, "did not begin with the document"},
	"a counter that shows at the 12th action is not saved": {"Restore", `            self.seq += 1
            return self.view(agent)`, `            self.acts = getattr(self, "acts", 0) + 1
            if self.acts % 12 == 0:
                self.fish += 1
            self.seq += 1
            return self.view(agent)`, "after load"},
	"a text breaks the document": {"Text", `if not is_text(text, 500):`, `if not text:`, "restore after odd texts"},
	"the document has no sum":    {"Damage", `json.dumps({**body, "sum": digest}, `, `json.dumps(body, `, "it is not refused"},
	"payloads have the host's time": {"Clock", `"time": self.time,
            "you"`, `"time": __import__("time").time(),
            "you"`, "time of the host"},
	"payloads differ between two processes": {"Clock", `"fish": self.fish,
            "others"`, `"fish": os.getpid(),
            "others"`, "a second run"},
	"answers have a header Date": {"API", `self.send_response_only(status)`, `self.send_response(status)`, "header with the time of the host"},
	"an agent may move time": {"API", `if self.path == "/advance":
            self.check_operator()`, `if self.path == "/advance":`, "without the operator's token"},
	"any token is the operator's":            {"API", `if not hmac.compare_digest(`, `if not self.headers.get("X-Operator-Token") and not hmac.compare_digest(`, "without the operator's token"},
	"a document is made without the lock":    {"Snapshots", `self.lock = threading.Lock()`, `self.lock = __import__("sys").setswitchinterval(1e-6) or __import__("contextlib").nullcontext()`, "during actions"},
	"a second join is an event":              {"Join", `return  # the same agent again is no event`, `self.seq += 1; return`, "join again"},
	"two agents have one name":               {"Join", `if agent["session"] == session or agent["name"] == name:`, `if agent["session"] == session:`, "it is not refused"},
	"observing is an event":                  {"Observe", `return self.view(self.agent(session))`, `self.seq += 1; return self.view(self.agent(session))`, "observe"},
	"a refused action is an event":           {"Refused", `raise Refused(400, "unknown action")`, `self.seq += 1; raise Refused(400, "unknown action")`, "seq"},
	"an unknown session acts":                {"Refused", `raise Refused(404, "the session has not joined")`, `return {"session": session, "name": "", "caught": 0}`, "it is not refused"},
	"an action moves time":                   {"Time", `agent["caught"] += amount`, `agent["caught"] += amount; self.time += TICK`, "the time is"},
	"an action leaves the number of changes": {"Header", `agent["caught"] += amount`, `agent["caught"] += amount; self.seq -= 1`, "the document changed"},
}

// TestCheckFindsMistakes makes each mistake in the example, and runs the check that must find it as 'segno world check' does.
func TestCheckFindsMistakes(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	pond := copyPond(t)
	server, err := os.ReadFile(filepath.Join(pond, "server.py"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(pond, httpworld.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range mistakes {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			defective := strings.Replace(string(server), c.from, c.to, 1)
			if defective == string(server) {
				t.Fatal("the mistake is not in the world")
			}
			for name, data := range map[string]string{"server.py": defective, httpworld.ConfigFile: string(config)} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var found error
			isRun := false
			err := httpworld.CheckOnly(t.Context(), dir, 1, c.check, func(_ string, defect error) { found, isRun = defect, true })
			if err != nil || !isRun || found == nil || !strings.Contains(found.Error(), c.text) {
				t.Errorf("check %s finds %.400v, %v", c.check, found, err)
			}
		})
	}
}

func TestCheckNeedsActions(t *testing.T) {
	dir := testWorld(t, "grid")
	err := httpworld.Check(t.Context(), dir, 1, func(check string, _ error) { t.Errorf("%s runs", check) })
	if !errors.Is(err, segno.KindInvalid) || !strings.Contains(err.Error(), "check.actions") {
		t.Errorf("the error is %v", err)
	}
}
