package credential_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/internal/worlds/credential"
)

func TestMain(m *testing.M) {
	memdir.Use()
	os.Exit(m.Run())
}

// token returns a JSON Web Token with an expiry.
func token(exp int64, about string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none"}`)) + "." + encode(fmt.Appendf(nil, `{"about":%q,"exp":%d}`, about, exp)) + "." + encode([]byte("x"))
}

func codex(exp int64, about, refreshed string) string {
	return fmt.Sprintf(`{"OPENAI_API_KEY":null,"tokens":{"access_token":%q,"refresh_token":%q,"account_id":%q},"last_refresh":%q}`,
		token(exp, about), about, about, refreshed)
}

// rig has the file of a user and the home of an agent.
type rig struct {
	*testing.T
	agent, home, user, own string
}

func newRig(t *testing.T, agent string) *rig {
	dir := t.TempDir()
	r := &rig{T: t, agent: agent, home: filepath.Join(dir, "home")}
	none := func(string) string { return "" }
	r.user = credential.UserFile(agent, filepath.Join(dir, "user"), none)
	r.own = credential.UserFile(agent, r.home, none)
	for _, d := range []string{filepath.Dir(r.user), filepath.Dir(r.own)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

var morning = time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC)

// write writes a file, unless its text is empty.
func (r *rig) write(name, text string, at time.Time) {
	r.Helper()
	if text == "" {
		return
	}
	err := os.WriteFile(name, []byte(text), 0o644)
	if err == nil {
		err = os.Chtimes(name, at, at)
	}
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) read() string {
	r.Helper()
	data, err := os.ReadFile(r.own)
	if err != nil {
		r.Fatal(err)
	}
	return string(data)
}

func (r *rig) merge() (credential.Result, error) {
	return credential.Merge(r.Context(), vfs.OS, r.agent, r.home, r.user)
}

// equal compares two JSON texts.
func equal(t *testing.T, got, want string) {
	t.Helper()
	var a, b any
	if err := json.Unmarshal([]byte(got), &a); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("the file is\n%s\nwant\n%s", got, want)
	}
}

// TestMerge merges logins that differ in their expiry, in the account, and in unknown fields.
func TestMerge(t *testing.T) {
	claude := func(expires, who string) string {
		return fmt.Sprintf(`{"claudeAiOauth":{"accessToken":"a-%s","refreshToken":"r-%[1]s","expiresAt":%s}}`, who, expires)
	}
	for name, test := range map[string]struct {
		agent, own, machine string
		isOlder             bool // the machine's file is older
		want                string
	}{
		"the machine's expires later":       {"claude", claude("100", "own"), claude("200", "machine"), true, claude("200", "machine")},
		"the agent's expires later":         {"claude", claude("300", "own"), claude("200", "machine"), false, claude("300", "own")},
		"the agent has none":                {"claude", "", claude("200", "machine"), false, claude("200", "machine")},
		"the agent logged out":              {"claude", `{"claudeAiOauth":null}`, claude("1", "machine"), true, claude("1", "machine")},
		"the agent's file is an object":     {"claude", `{ }`, claude("1", "machine"), true, claude("1", "machine")},
		"both expire at the same time":      {"claude", claude("200", "own"), claude("200", "machine"), false, claude("200", "machine")},
		"the same, the machine's is older":  {"claude", claude("200", "own"), claude("200", "machine"), true, claude("200", "own")},
		"the machine's never expires":       {"claude", claude("200", "own"), claude("null", "machine"), false, claude("null", "machine")},
		"the agent's never expires":         {"claude", claude("null", "own"), claude("200", "machine"), true, claude("null", "own")},
		"a time as text is unknown":         {"claude", claude(`"999"`, "own"), claude("200", "machine"), true, claude(`"999"`, "own")},
		"a clock that was wrong for a year": {"claude", claude("1e14", "own"), claude("1777622400000", "machine"), false, claude("1e14", "own")},
		"the organization follows the login": {"claude",
			`{"claudeAiOauth":{"expiresAt":1},"organizationUuid":"own","theme":"dark"}`, `{"claudeAiOauth":{"expiresAt":2},"seen":[1]}`, true,
			`{"claudeAiOauth":{"expiresAt":2},"theme":"dark","seen":[1]}`},
		"servers are separate": {"claude",
			`{"mcpOAuth":{"a":{"expiresAt":9,"x":1},"b":{"expiresAt":1},"only own":{}}}`,
			`{"mcpOAuth":{"a":{"expiresAt":8},"b":{"expiresAt":2,"y":[null]},"c":{"expiresAt":0}}}`, true,
			`{"mcpOAuth":{"a":{"expiresAt":9,"x":1},"b":{"expiresAt":2,"y":[null]},"only own":{},"c":{"expiresAt":0}}}`},
		"servers in another form": {"claude", `{"mcpOAuth":["own"]}`, `{"mcpOAuth":{"a":{"expiresAt":8}}}`, false, `{"mcpOAuth":["own"]}`},
		"unknown fields": {"claude", `{"new":{"deep":[1,2.50]},"claudeAiOauth":{"expiresAt":5}}`, `{"new":7,"claudeAiOauth":{"expiresAt":4}}`, false,
			`{"new":{"deep":[1,2.50]},"claudeAiOauth":{"expiresAt":5}}`},
		"two accounts, tokens are not mixed": {"codex", codex(100, "own", "2026-01-02T00:00:00Z"), codex(200, "machine", "2026-01-01T00:00:00Z"), true,
			codex(200, "machine", "2026-01-01T00:00:00Z")},
		"the later refresh decides": {"codex", codex(100, "own", "2026-01-02T00:00:00Z"), codex(100, "machine", "2026-01-01T00:00:00Z"), false,
			codex(100, "own", "2026-01-02T00:00:00Z")},
		"a key of the user replaces an older login": {"codex", codex(100, "own", ""), `{"OPENAI_API_KEY":"sk"}`, false, `{"OPENAI_API_KEY":"sk"}`},
		"a token that is none":                      {"codex", `{"tokens":{"access_token":"a.%%.c"}}`, codex(1, "machine", ""), true, `{"tokens":{"access_token":"a.%%.c"}}`},
		"gemini":                                    {"gemini", `{"access_token":"own","expiry_date":5,"more":1}`, `{"access_token":"machine","expiry_date":6}`, true, `{"access_token":"machine","expiry_date":6,"more":1}`},
		"opencode": {"opencode", `{"anthropic":{"type":"oauth","expires":5},"x":{"key":"own"}}`, `{"anthropic":{"expires":6},"x":{"key":"machine"},"y":{}}`, true,
			`{"anthropic":{"expires":6},"x":{"key":"own"},"y":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, test.agent)
			r.write(r.own, test.own, morning)
			at := morning.Add(time.Hour)
			if test.isOlder {
				at = morning.Add(-time.Hour)
			}
			r.write(r.user, test.machine, at)
			if _, err := r.merge(); err != nil {
				t.Fatal(err)
			}
			equal(t, r.read(), test.want)
			info, err := os.Stat(r.own)
			if err != nil || info.Mode() != 0o600 {
				t.Errorf("the mode is %v, %v", info.Mode(), err)
			}
			before := r.read()
			if again, err := r.merge(); err != nil || len(again.Taken) > 0 || r.read() != before {
				t.Errorf("a second merge took %v, %v", again.Taken, err)
			}
		})
	}
}

// TestStays checks that a file that needs nothing from the machine keeps its bytes and its time.
func TestStays(t *testing.T) {
	r := newRig(t, "claude")
	text := "{\n  \"claudeAiOauth\" : {\"expiresAt\": 5},\n  \"b\": 1.0\n}\n"
	r.write(r.own, text, morning)
	r.write(r.user, `{"claudeAiOauth":{"expiresAt":4}}`, morning.Add(time.Hour))
	res, err := r.merge()
	info, statErr := os.Stat(r.own)
	if err != nil || statErr != nil || r.read() != text || !info.ModTime().Equal(morning) || len(res.Kept) != 1 {
		t.Errorf("%+v, %v, %v: %s", res, err, statErr, r.read())
	}
}

// TestUserFileFollowsTheAgentsDirectory moves the directories of agents with variables, and then finds their logins where
// the agents write them.
func TestUserFileFollowsTheAgentsDirectory(t *testing.T) {
	env := map[string]string{"CLAUDE_CONFIG_DIR": "/c", "CODEX_HOME": "/x", "GEMINI_CLI_HOME": "/g", "XDG_DATA_HOME": "/d", "OPENCODE_CONFIG_DIR": "/o"}
	for agent, want := range map[string]string{"claude": "/c/.credentials.json", "codex": "/x/auth.json", "gemini": "/g/.gemini/oauth_creds.json",
		"opencode": "/d/opencode/auth.json", "segno": "", "unknown": ""} {
		if got := credential.UserFile(agent, "/home", func(name string) string { return env[name] }); got != want {
			t.Errorf("the logins of %s are in %q, want %q", agent, got, want)
		}
	}
}

// TestNoLoginOfTheMachine checks that without a login of the machine, only the mode of the agent's file changes.
func TestNoLoginOfTheMachine(t *testing.T) {
	r := newRig(t, "codex")
	if res, err := r.merge(); err != nil || len(res.Taken)+len(res.Kept) > 0 {
		t.Errorf("%+v, %v", res, err)
	}
	r.write(r.own, codex(1, "own", ""), morning)
	if _, err := r.merge(); err != nil {
		t.Fatal(err)
	}
	equal(t, r.read(), codex(1, "own", ""))
	if info, err := os.Stat(r.own); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestRefusals checks that both files stay unchanged if one of them is damaged or not a regular file.
func TestRefusals(t *testing.T) {
	const good = `{"claudeAiOauth":{"expiresAt":5,"accessToken":"SECRET"}}`
	for name, test := range map[string]struct {
		make func(r *rig) error
		kind segno.Kind
	}{
		"symlink":           {func(r *rig) error { return os.Symlink(r.user, r.own) }, segno.KindRefused},
		"dangling symlink":  {func(r *rig) error { return os.Symlink("nowhere", r.own) }, segno.KindRefused},
		"FIFO":              {func(r *rig) error { return syscall.Mkfifo(r.own, 0o600) }, segno.KindRefused},
		"directory":         {func(r *rig) error { return os.Mkdir(r.own, 0o700) }, segno.KindRefused},
		"symlink above":     {func(r *rig) error { return moved(filepath.Dir(r.own)) }, segno.KindRefused},
		"symlink to a home": {func(r *rig) error { return moved(r.home) }, segno.KindRefused},
		"truncated":         {func(r *rig) error { return os.WriteFile(r.own, []byte(good[:30]), 0o600) }, segno.KindCorrupt},
		"empty":             {func(r *rig) error { return os.WriteFile(r.own, nil, 0o600) }, segno.KindCorrupt},
		"array":             {func(r *rig) error { return os.WriteFile(r.own, []byte(`["SECRET"]`), 0o600) }, segno.KindCorrupt},
		"two keys":          {func(r *rig) error { return os.WriteFile(r.own, []byte(`{"a":"SECRET","\u0061":2}`), 0o600) }, segno.KindCorrupt},
		"two values":        {func(r *rig) error { return os.WriteFile(r.own, []byte(good+good), 0o600) }, segno.KindCorrupt},
		"no UTF-8":          {func(r *rig) error { return os.WriteFile(r.own, []byte("{\"SECRET\":\"\xff\"}"), 0o600) }, segno.KindCorrupt},
		"too large":         {func(r *rig) error { return os.WriteFile(r.own, bytes.Repeat([]byte(" "), 2<<20), 0o600) }, segno.KindCorrupt},
		"machine's damaged": {func(r *rig) error { return os.WriteFile(r.user, []byte(`{"SECRET`), 0o600) }, segno.KindCorrupt},
		"machine's FIFO":    {func(r *rig) error { return swap(r.user) }, segno.KindRefused},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "claude")
			r.write(r.user, good, morning)
			if err := test.make(r); err != nil {
				t.Fatal(err)
			}
			before := state(t, filepath.Dir(r.home))
			_, err := r.merge()
			if segno.KindOf(err) != test.kind || strings.Contains(fmt.Sprint(err), "SECRET") || segno.HintOf(err) == "" {
				t.Errorf("the error is %v (%v)", err, segno.KindOf(err))
			}
			if after := state(t, filepath.Dir(r.home)); after != before {
				t.Errorf("the files were\n%s\nand are\n%s", before, after)
			}
		})
	}
}

// moved replaces a directory by a symlink to it.
func moved(dir string) error {
	if err := os.Rename(dir, dir+"-real"); err != nil {
		return err
	}
	return os.Symlink(filepath.Base(dir)+"-real", dir)
}

func swap(name string) error {
	if err := os.Remove(name); err != nil {
		return err
	}
	return syscall.Mkfifo(name, 0o600)
}

// state describes all files below a directory.
func state(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		if d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(data[:min(len(data), 200)])
		}
		fmt.Fprintln(&b, path, info.Mode(), text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestSymlinkOfTheUser follows a symlink to the file of the machine. Programs that manage settings make such
// symlinks.
func TestSymlinkOfTheUser(t *testing.T) {
	r := newRig(t, "codex")
	r.write(r.user+".real", codex(1, "machine", ""), morning)
	if err := os.Symlink(r.user+".real", r.user); err != nil {
		t.Fatal(err)
	}
	res, err := r.merge()
	if err != nil || len(res.Taken) != 1 {
		t.Errorf("%+v, %v", res, err)
	}
	equal(t, r.read(), codex(1, "machine", ""))
}

// TestFaults fails each operation, either only that one or, as in a killed process, that one and all later ones. The
// file must have the old content or the new one, and the next merge must complete it and leave no other file.
func TestFaults(t *testing.T) {
	const own, machine = `{"claudeAiOauth":{"expiresAt":1}}`, `{"claudeAiOauth":{"expiresAt":2}}`
	for _, before := range []string{own, ""} {
		prepare := func(t *testing.T) *rig {
			r := newRig(t, "claude")
			r.write(r.own, before, morning)
			r.write(r.user, machine, morning)
			return r
		}
		run := func(r *rig, f *faultfs.Faults) error {
			_, err := credential.Merge(r.Context(), f.Wrap(vfs.OS), r.agent, r.home, r.user)
			return err
		}
		clean := faultfs.FailAt(-1)
		if err := run(prepare(t), clean); err != nil {
			t.Fatal(err)
		}
		for _, n := range faultfs.Sample(t, clean.Trace()) {
			for _, forever := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d %v", n, forever), func(t *testing.T) {
					r, f := prepare(t), faultfs.FailAt(n)
					f.Forever = forever
					err := run(r, f)
					if err == nil && f.Fired() && !strings.HasPrefix(clean.Trace()[n], "close") {
						t.Errorf("%s failed without an error", clean.Trace()[n])
					}
					data, readErr := os.ReadFile(r.own)
					if text := string(data); text != before && text != machine || readErr != nil && before != "" {
						t.Errorf("the file is %q, %v", text, readErr)
					}
					if _, err := r.merge(); err != nil {
						t.Fatal(err)
					}
					equal(t, r.read(), machine)
					if entries, err := os.ReadDir(filepath.Dir(r.own)); err != nil || len(entries) != 1 {
						t.Errorf("the directory has %v, %v", entries, err)
					}
				})
			}
		}
	}
}

// racingFS writes the agent's file just before the merge replaces it, as an agent does that refreshes its login.
type racingFS struct {
	vfs.FS
	race func()
}

type racingRoot struct {
	vfs.Root
	race func()
}

func (f racingFS) OpenRoot(name string) (vfs.Root, error) {
	root, err := f.FS.OpenRoot(name)
	return racingRoot{root, f.race}, err
}

// Lstat is the last call before the file is replaced.
func (r racingRoot) Lstat(name string) (fs.FileInfo, error) {
	if filepath.Base(name) == ".credentials.json" {
		r.race()
	}
	return r.Root.Lstat(name)
}

// TestRefreshedMeanwhile writes the agent's file during the merge. The newer login must not be lost.
func TestRefreshedMeanwhile(t *testing.T) {
	r := newRig(t, "claude")
	r.write(r.own, `{"claudeAiOauth":{"expiresAt":1}}`, morning)
	r.write(r.user, `{"claudeAiOauth":{"expiresAt":2}}`, morning)
	calls := 0
	race := func() {
		if calls++; calls == 2 {
			r.write(r.own, `{"claudeAiOauth":{"expiresAt":3}}`, morning.Add(time.Minute))
		}
	}
	if _, err := credential.Merge(t.Context(), racingFS{vfs.OS, race}, r.agent, r.home, r.user); err != nil {
		t.Fatal(err)
	}
	equal(t, r.read(), `{"claudeAiOauth":{"expiresAt":3}}`)
	race = func() {
		calls++
		r.write(r.own, fmt.Sprintf(`{"claudeAiOauth":{"expiresAt":-%d}}`, calls), morning.Add(time.Duration(calls)))
	}
	if _, err := credential.Merge(t.Context(), racingFS{vfs.OS, race}, r.agent, r.home, r.user); segno.KindOf(err) != segno.KindBusy {
		t.Errorf("the error is %v", err)
	}
}

// FuzzMerge merges any two files. Each login of the result is in one of the files, unknown members of the agent's
// file stay, and a second merge changes nothing.
func FuzzMerge(f *testing.F) {
	f.Add(`{"claudeAiOauth":{"expiresAt":1},"a":1}`, `{"claudeAiOauth":{"expiresAt":2}}`, "claude", true)
	f.Add(`{"mcpOAuth":{"a":{"expiresAt":1}}}`, `{"mcpOAuth":{"a":{"expiresAt":1e99},"b":2}}`, "claude", false)
	f.Add(codex(1, "a", "2026-01-01T00:00:00Z"), codex(2, "b", ""), "codex", false)
	f.Add(`{"claudeAiOauth":{"expiresAt":1e999}}`, `{"claudeAiOauth":{"expiresAt":-0}}`, "claude", true)
	f.Add(`{"x":{"expires":"1"}}`, `{"x":{"expires":1},"\ud800":2}`, "opencode", true)
	f.Fuzz(func(t *testing.T, own, machine, agent string, isNewer bool) {
		if credential.UserFile(agent, "/home", func(string) string { return "" }) == "" {
			agent = "claude"
		}
		r := newRig(t, agent)
		at := morning
		if isNewer {
			at = morning.Add(time.Second)
		}
		if own == "" || machine == "" {
			return
		}
		r.write(r.own, own, morning)
		r.write(r.user, machine, at)
		_, err := r.merge()
		got := r.read()
		if err != nil {
			if got != own || segno.HintOf(err) == "" {
				t.Fatalf("%v: the file is %q, and was %q", err, got, own)
			}
			return
		}
		var merged, a, b map[string]json.RawMessage
		if json.Unmarshal([]byte(got), &merged) != nil || json.Unmarshal([]byte(own), &a) != nil || json.Unmarshal([]byte(machine), &b) != nil {
			t.Fatalf("%q and %q became %q", own, machine, got)
		}
		for key, value := range merged {
			if key != "mcpOAuth" && !bytes.Equal(value, a[key]) && !bytes.Equal(value, b[key]) {
				t.Fatalf("%q and %q became %q", own, machine, got)
			}
		}
		if again, err := r.merge(); err != nil || r.read() != got {
			t.Fatalf("%q and %q became %q, and then %q: %+v, %v", own, machine, got, r.read(), again, err)
		}
	})
}
