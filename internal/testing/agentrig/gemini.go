package agentrig

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// GeminiVersion is a version of Gemini CLI in npm's spelling.
type GeminiVersion string

// GeminiVersions returns the versions on which a scenario runs: the pin, or the one that the
// environment names.
func GeminiVersions() []GeminiVersion {
	if v := os.Getenv(geminiVar); v != "" {
		return []GeminiVersion{GeminiVersion(v)}
	}
	return []GeminiVersion{GeminiNewest}
}

func (v GeminiVersion) npm() npmPackage {
	p := npmPackage{name: geminiPackage, version: string(v), before: pinnedOn, file: geminiPackage + "/bundle/gemini.js"}
	if v != GeminiNewest {
		p.before = ""
	}
	return p
}

// Gemini is one isolated installation of Gemini CLI.
type Gemini struct {
	*Rig
	Version GeminiVersion
}

// NewGemini makes a home, a configuration and a project for a version under dir. The first call
// installs the version. Its model is at modelURL.
func NewGemini(ctx context.Context, dir, modelURL string, version GeminiVersion) (*Gemini, error) {
	node, err := installNode(ctx)
	if err != nil {
		return nil, err
	}
	script, err := version.npm().install(ctx)
	if err != nil {
		return nil, err
	}
	rig, err := New(dir, node, modelURL)
	if err != nil {
		return nil, err
	}
	// With a fixed model, the agent makes no model call that chooses one.
	rig.Flags = []string{script, "--yolo", "--model", "gemini-2.5-pro"}
	rig.Path = []string{filepath.Dir(node)}
	rig.Vars["GEMINI_API_KEY"], rig.Vars["GOOGLE_GEMINI_BASE_URL"] = dummyKey, modelURL
	rig.Vars["GEMINI_CLI_TRUST_WORKSPACE"] = "true"
	rig.Vars["NODE_COMPILE_CACHE"] = filepath.Join(dir, "compiled") // each start compiles 16 MB of script, which takes half of its time
	g := &Gemini{rig, version}
	if err := os.MkdirAll(g.Dir(), 0o755); err != nil {
		return nil, fmt.Errorf("agentrig: configuring gemini: %w", err)
	}
	return g, writeJSON(g.Settings(), map[string]any{
		"security": map[string]any{"auth": map[string]any{"selectedType": "gemini-api-key"}},
		"privacy":  map[string]any{"usageStatisticsEnabled": false},
		"general":  map[string]any{"enableAutoUpdate": false},
	})
}

// Dir returns the directory of its settings and sessions.
func (g *Gemini) Dir() string { return filepath.Join(g.Home, ".gemini") }

// Settings returns the file of the user's settings.
func (g *Gemini) Settings() string { return filepath.Join(g.Dir(), "settings.json") }

// GeminiResult is the result of one prompt.
type GeminiResult struct {
	Session        string `json:"session_id"`
	Response       string `json:"response"`
	Stdout, Stderr string `json:"-"`
}

// Prompt runs one prompt to its end, without a terminal. An exit code other than 0 is an error, too.
func (g *Gemini) Prompt(ctx context.Context, prompt string, args ...string) (GeminiResult, error) {
	var stdout, stderr bytes.Buffer
	cmd := g.command(ctx, slices.Concat(g.Flags, args, []string{"--output-format", "json", "--prompt", prompt})...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	p, err := start(cmd)
	if err != nil {
		return GeminiResult{}, err
	}
	code, err := p.Wait(ctx)
	res := GeminiResult{Stdout: stdout.String(), Stderr: stderr.String()}
	if err == nil && code != 0 {
		err = fmt.Errorf("agentrig: gemini exited with %d: %s%s", code, res.Stdout, res.Stderr)
	}
	if err == nil {
		err = json.Unmarshal(stdout.Bytes(), &res)
	}
	return res, err
}
