package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/secret"
)

// TestSecretsOutsideOfContents has a secret in every part of an archive except the content of a
// file. None of them is written, and the error does not print the secret.
func TestSecretsOutsideOfContents(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	token := "ghp_" + "R5pZ8kQ2mW7xT4vN9cB3dF6hJ1sL0aYgUeKi"
	agent := func(change func(*AgentState)) func(*State) {
		return func(s *State) { change(&s.Agents[0]) }
	}
	for name, change := range map[string]func(*State){
		"name":           agent(func(a *AgentState) { a.Workspace = append(a.Workspace, content("src/"+token+".txt", "x")) }),
		"name of secret": agent(func(a *AgentState) { a.Workspace = append(a.Workspace, content(token, token)) }),
		"directory":      agent(func(a *AgentState) { a.Workspace = append(a.Workspace, content(token+"/"+token+"/f", "x")) }),
		"empty":          agent(func(a *AgentState) { a.Dirs = []string{token} }),
		"session":        agent(func(a *AgentState) { a.Session = append(a.Session, content(token+".jsonl", "{}")) }),
		"link":           agent(func(a *AgentState) { a.Links = []Link{{token, "ok"}} }),
		"target":         agent(func(a *AgentState) { a.Links = []Link{{"l", token}} }),
		"bad target":     agent(func(a *AgentState) { a.Links = []Link{{"d/" + token, "/etc"}} }),
		"omitted name":   agent(func(a *AgentState) { a.Workspace = append(a.Workspace, content(token+"?", "x")) }),
		"credential":     agent(func(a *AgentState) { a.Workspace = append(a.Workspace, content(token+"/.env", "x")) }),
		"agent":          agent(func(a *AgentState) { a.Info.Name = token }),
		"session id":     agent(func(a *AgentState) { a.Info.SessionID = token }),
		"backend":        agent(func(a *AgentState) { a.Info.Backend = token }),
		"omitted":        func(s *State) { s.Omitted = []Omission{{Path: token, Why: "protected"}} },
		"reason":         func(s *State) { s.Omitted = []Omission{{Path: "x", Why: token}} },
		"caller":         func(s *State) { s.Caller = map[string]any{"note": "a \"" + token + "\""} },
		"caller's key":   func(s *State) { s.Caller = map[string]any{token: 1} },
		"world":          func(s *State) { s.World = &WorldState{Info: WorldInfo{Format: token}, Document: content("w", "{}")} },
		"parent":         func(s *State) { s.Parent = &ParentInfo{Digest: token, Kind: "lineage"} },
	} {
		t.Run(name, func(t *testing.T) {
			s := State{Agents: []AgentState{{Info: AgentInfo{Name: "a"}, Workspace: []File{content("ok", "x")}}}}
			change(&s)
			file := filepath.Join(t.TempDir(), "a.ckpt")
			_, err := Write(t.Context(), file, s, WriteOptions{})
			var found *CheckpointSecretError
			if !errors.As(err, &found) || !errors.Is(err, segno.KindRefused) {
				t.Fatalf("error %v", err)
			}
			report, _ := json.Marshal(found.Findings)
			if text := err.Error() + string(report); strings.Contains(text, token) {
				t.Errorf("the secret is in %s", text)
			}
			t.Log(err)
			if _, err := Describe(t.Context(), s, WriteOptions{}); !errors.As(err, &found) {
				t.Errorf("Describe: %v", err)
			}
			if _, err := os.Lstat(file); err == nil {
				t.Error("the archive is there")
			}
			m, err := Write(t.Context(), file, s, WriteOptions{Allow: []string{found.Findings[0].Fingerprint}})
			if err != nil || len(m.Scan.Allowed) != 1 {
				t.Errorf("allowed: %v", err)
			}
		})
	}
	base := &Base{Manifest: &Manifest{Digest: "sha256:" + strings.Repeat("0", 64)}, Name: token}
	_, err := Write(t.Context(), filepath.Join(t.TempDir(), "a.ckpt"), State{}, WriteOptions{Since: base})
	if !errors.As(err, new(*CheckpointSecretError)) {
		t.Errorf("the name of a base: %v", err)
	}
}

// TestASessionWithASecretNameIsLeftOut follows the hint in the error.
func TestASessionWithASecretNameIsLeftOut(t *testing.T) {
	token := "ghp_" + "R5pZ8kQ2mW7xT4vN9cB3dF6hJ1sL0aYgUeKi"
	s := State{Agents: []AgentState{{Info: AgentInfo{Name: "a"}, Session: []File{content(token, "{}")}}}}
	name := filepath.Join(t.TempDir(), "a.ckpt")
	m, err := Write(t.Context(), name, s, WriteOptions{OmitSession: true})
	if err != nil || len(m.Entries) != 0 || len(m.Omitted) != 1 {
		t.Fatalf("%+v, %v", m, err)
	}
	data, err := os.ReadFile(name)
	if err != nil || strings.Contains(string(data), token) {
		t.Errorf("the secret is in the archive: %v", err)
	}
}

// TestFilesWithASecretAreLeftOut writes an archive without the parts of a workspace that have a secret in their content or
// their name. Nothing in the archive has the secret, and the manifest lists each part.
func TestFilesWithASecretAreLeftOut(t *testing.T) {
	token := "ghp_" + "R5pZ8kQ2mW7xT4vN9cB3dF6hJ1sL0aYgUeKi"
	s := State{Agents: []AgentState{{Info: AgentInfo{Name: "a"},
		Workspace: []File{content("notes", "clean"), content("logs/vars", "TOKEN="+token), content("logs/vars 2", "TOKEN="+token), content("logs/"+token, "x"), content(".aws/"+token, "x")},
		Dirs:      []string{"empty", "dirs/" + token},
		Links:     []Link{{"good", "notes"}, {"bad", token}},
	}}}
	name := filepath.Join(t.TempDir(), "a.ckpt")
	m, err := Write(t.Context(), name, s, WriteOptions{OmitFiles: true})
	if err != nil {
		t.Fatal(err)
	}
	var omitted []string
	for _, o := range m.Omitted {
		if (len(o.Findings) > 0) != (o.Why == OmittedSecret) {
			t.Errorf("omitted %+v", o)
		}
		omitted = append(omitted, o.Path+" "+o.Why)
	}
	slices.Sort(omitted)
	want := []string{"agents/a/workspace/.aws/(secret) credential", "agents/a/workspace/bad secret-scan", "agents/a/workspace/dirs/(secret) secret-scan",
		"agents/a/workspace/logs/(secret) secret-scan", "agents/a/workspace/logs/vars 2 secret-scan", "agents/a/workspace/logs/vars secret-scan"}
	if !slices.Equal(omitted, want) {
		t.Errorf("omitted %q", omitted)
	}
	if len(m.Entries) != 1 || len(m.Dirs) != 1 || len(m.Links) != 1 {
		t.Errorf("the archive has %+v, %q, %+v", m.Entries, m.Dirs, m.Links)
	}
	data, err := os.ReadFile(name)
	if err != nil || strings.Contains(string(data)+fmt.Sprint(m), token) {
		t.Errorf("the secret is in the archive: %v", err)
	}
	r, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	s.World = &WorldState{Document: content("world", token)}
	if _, err := Write(t.Context(), name+"2", s, WriteOptions{OmitFiles: true}); !errors.As(err, new(*CheckpointSecretError)) {
		t.Errorf("a secret in the world: %v", err)
	}
}

// TestNamesOfAnEnvironmentValue finds the value of a variable in a name.
func TestNamesOfAnEnvironmentValue(t *testing.T) {
	scanner, err := secret.New(secret.Options{Environ: []string{"DEPLOY_TOKEN=plain-words-7391"}})
	if err != nil {
		t.Fatal(err)
	}
	s := State{Agents: []AgentState{{Info: AgentInfo{Name: "a"}, Workspace: []File{content("x-plain-words-7391-y", "")}}}}
	_, err = Write(t.Context(), filepath.Join(t.TempDir(), "a.ckpt"), s, WriteOptions{Scanner: scanner})
	if !errors.As(err, new(*CheckpointSecretError)) {
		t.Errorf("error %v", err)
	}
}
