package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/jsonscan"
)

// Schema names the format that this package writes. Readers of later versions must read it,
// too.
const Schema = "ckpt/1"

// A Tier is one kind of state in an archive.
type Tier string

const (
	World     Tier = "world"     // the document of the world
	Workspace Tier = "workspace" // files of an agent's directory
	Session   Tier = "session"   // the agent's conversation
	Thread    Tier = "thread"    // a whole thread of checkpoints
)

// Metadata is metadata.json: facts about an archive apart from its content. Its
// fields are not part of the digest.
type Metadata struct {
	Schema  string    `json:"schema_version"`
	Created time.Time `json:"created_at"` // of the checkpoint, not of the archive
	// SessionFormat is the format of the agents' sessions, if they all have the same.
	SessionFormat string   `json:"session_format,omitempty"`
	Agents        []string `json:"agents"`
	// Caller contains the additions of the program that wrote the archive, under its own names.
	Caller map[string]any `json:"caller,omitempty"`
}

// Manifest is manifest.json: everything that an archive contains.
type Manifest struct {
	Schema string `json:"schema"`
	// Digest names the state: "sha256:" and the SHA-256 of manifest.json. It does not depend on the
	// compression, the signature or the time of writing.
	Digest  string        `json:"-"`
	World   *WorldInfo    `json:"world,omitempty"`
	Agents  []AgentInfo   `json:"agents"`
	Entries []Entry       `json:"entries"`
	Dirs    []string      `json:"dirs,omitempty"` // empty directories
	Links   []Link        `json:"links,omitempty"`
	Omitted []Omission    `json:"omitted,omitempty"`
	Cut     *Cut          `json:"cut,omitempty"`
	Parent  *ParentInfo   `json:"parent,omitempty"`
	Scan    *SecretReport `json:"scan,omitempty"`
}

// WorldInfo describes the world's document.
type WorldInfo struct {
	Format  string `json:"format,omitempty"`
	SimTime string `json:"sim_time,omitempty"` // as the document has it
	Hash    string `json:"world_hash,omitempty"`
}

// AgentInfo describes one agent.
type AgentInfo struct {
	Name          string `json:"name"`
	Backend       string `json:"backend,omitempty"`        // claude, codex, segno …
	SessionFormat string `json:"session_format,omitempty"` // claude-code-v1, codex-v1, segno-v1, segno-log-v1
	SessionID     string `json:"session_id,omitempty"`
}

// An Entry is one file.
type Entry struct {
	Path   string `json:"path"` // in the archive
	Tier   Tier   `json:"tier"`
	Size   int64  `json:"size"`
	Mode   string `json:"mode"` // "0644" or "0755"
	SHA256 string `json:"sha256"`
	// Modified is the file's time in nanoseconds since 1970, as text. Load restores it, but files
	// that differ only in their times have the same content.
	Modified string `json:"mtime,omitempty"`
}

// A Link is a symbolic link inside a workspace. It is never an entry of the zip.
type Link struct {
	Path   string `json:"path"`
	Target string `json:"target"` // relative, and inside the workspace
}

// An Omission is a part of the state that is not in the archive.
type Omission struct {
	Path  string `json:"path"`
	Why   string `json:"why"`
	Files int    `json:"files,omitempty"`
	Bytes int64  `json:"bytes,omitempty"`
	// Findings are fingerprints of the secrets that caused the omission.
	Findings []string `json:"findings,omitempty"`
}

// Reasons of an Omission.
const (
	OmittedRebuildable = "reconstructable" // a tool can make it again
	OmittedProtected   = "protected"       // not stored: too large, unreadable, or ruled out
	OmittedCredential  = "credential"      // a place for credentials or for an agent's abilities
	OmittedName        = "name"            // other systems cannot have a file of this name
	OmittedLink        = "link"            // a link whose target is outside the workspace
	OmittedSpecial     = "special"         // neither a file, a directory nor a link
	OmittedSecret      = "secret-scan"     // the scan found a secret
	OmittedByRequest   = "by request"      // the user left it out
)

// Cut describes how the parts of an archive belong together in time.
type Cut struct {
	// Consistency is quiet if all agents were idle, barrier if they were stopped for the
	// moment, and crash if the parts may be some milliseconds apart.
	Consistency    string   `json:"consistency"`
	WorldSeq       []uint64 `json:"world_seq,omitempty"`
	ElapsedSeconds int64    `json:"elapsed_seconds,omitempty"`
	Generation     int      `json:"generation,omitempty"`
}

// Kinds of consistency.
const (
	Quiet   = "quiet"
	Barrier = "barrier"
	Crash   = "crash"
)

// ParentInfo names the archive before this one. It is independent of the base of a [Delta].
type ParentInfo struct {
	Digest string `json:"state_digest"`
	Kind   string `json:"kind"` // lineage
}

// SecretReport names the rules of the secret scan and the findings that the user allowed.
type SecretReport struct {
	Rules   string   `json:"rules"`             // the digest of the rules
	Allowed []string `json:"allowed,omitempty"` // fingerprints
}

// digestOf returns the digest of manifest.json.
func digestOf(manifest []byte) string {
	sum := sha256.Sum256(manifest)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// parseManifest reads manifest.json.
func parseManifest(data []byte) (*Manifest, error) {
	m := new(Manifest)
	malformed := m.parse(data)
	schema := m.Schema
	if malformed != nil {
		schema = schemaOf(data)
	}
	if schema != Schema {
		return nil, segno.Errorf(segno.KindNewer, "", "", "manifest.json: format %q is not one of those that this version reads (%s)", schema, Schema)
	}
	if malformed != nil {
		return nil, fmt.Errorf("manifest.json: %w", malformed)
	}
	m.Digest = digestOf(data)
	return m, nil
}

// parse is parseExact for a manifest. The list of files is nearly all of it, and encoding/json takes four
// times as long for such a list as jsonscan. The scan need not refuse other forms, because checkExact does.
func (m *Manifest) parse(data []byte) error {
	list := jsonscan.Find(data, jsonscan.Span{To: len(data)}, "entries")
	if err := parse(slices.Concat(data[:list.From], []byte("[]"), data[list.To:]), m); err != nil {
		return err
	}
	document := string(data)
	jsonscan.ElementsOfValid(data, list.From, func(at jsonscan.Span) {
		if len(m.Entries) <= maxEntries {
			m.Entries = append(m.Entries, scanEntry(data, document, at.From))
		}
	})
	return checkExact(data, m)
}

// scanEntry reads the file that begins at data[at]. Its texts without escapes share the memory of document.
func scanEntry(data []byte, document string, at int) (e Entry) {
	jsonscan.Members(data, at, func(key []byte, value jsonscan.Span) {
		var text string
		if raw := jsonscan.RawText(value.Of(data)); bytes.IndexByte(raw, '\\') >= 0 {
			text = jsonscan.Unescape(raw)
		} else if raw != nil {
			text = document[value.From+1 : value.To-1]
		}
		switch string(key) {
		case "path":
			e.Path = text
		case "tier":
			e.Tier = Tier(text)
		case "size":
			e.Size, _ = strconv.ParseInt(string(value.Of(data)), 10, 64) // checkExact refuses another value
		case "mode":
			e.Mode = text
		case "sha256":
			e.SHA256 = text
		case "mtime":
			e.Modified = text
		}
	})
	return e
}

// schemaOf returns the schema of a manifest, which may be of a later format, or Schema if the manifest
// is not JSON.
func schemaOf(data []byte) string {
	var later struct {
		Schema string `json:"schema"`
	}
	if json.Unmarshal(data, &later) != nil {
		return Schema
	}
	return later.Schema
}

const (
	modeFile       = "0644"
	modeExecutable = "0755"
)

// check returns an error unless m describes a state that can be loaded.
func (m *Manifest) check() error {
	if len(m.Agents) > maxAgents {
		return fmt.Errorf("it has more than %d agents", maxAgents)
	}
	names := newNameSet(len(m.Entries))
	names.mostDirs = maxEntries
	agents := newNameSet(len(m.Agents))
	for i, a := range m.Agents {
		if strings.Contains(a.Name, "/") {
			return fmt.Errorf("agent %q: the name has a slash", a.Name)
		}
		if err := errors.Join(checkName(a.Name), agents.add(a.Name)); err != nil {
			return fmt.Errorf("agent %q: %w", a.Name, err)
		}
		if i > 0 && m.Agents[i-1].Name >= a.Name {
			return errors.New("the agents are not in order")
		}
	}
	total := int64(0)
	for i, e := range m.Entries {
		if err := m.checkEntry(i, e); err != nil {
			return fmt.Errorf("%q: %w", e.Path, err)
		}
		if err := m.checkPath(e.Path, e.Tier, names); err != nil {
			return fmt.Errorf("%q: %w", e.Path, err)
		}
		if total += e.Size; total < 0 {
			return errors.New("the sizes add up to more than 2^63 bytes")
		}
	}
	hasWorld := len(m.Entries) > 0 && m.Entries[0].Path == worldName
	if (m.World != nil) != hasWorld {
		return errors.New("there is a world and no document of it, or the reverse")
	}
	return m.checkOthers(names)
}

func (m *Manifest) checkEntry(i int, e Entry) error {
	if e.Size < 0 {
		return errors.New("the size is negative")
	}
	if e.Mode != modeFile && e.Mode != modeExecutable {
		return fmt.Errorf("mode %q is neither 0644 nor 0755", e.Mode)
	}
	if !isHash(e.SHA256) {
		return errors.New("the hash is not 64 lower-case hex digits")
	}
	if _, err := e.modified(); err != nil {
		return err
	}
	// world.snapshot is before agents/… although its name sorts later.
	if i > 0 && m.Entries[i-1].Path >= e.Path && m.Entries[i-1].Path != worldName {
		return errors.New("the files are not in order")
	}
	return nil
}

// modified returns the time of a file, or the zero time if the archive has none.
func (e *Entry) modified() (time.Time, error) {
	if e.Modified == "" {
		return time.Time{}, nil
	}
	ns, err := strconv.ParseInt(e.Modified, 10, 64)
	var text [20]byte
	if err != nil || string(strconv.AppendInt(text[:0], ns, 10)) != e.Modified {
		return time.Time{}, fmt.Errorf("time %q is not a number of nanoseconds", e.Modified)
	}
	return time.Unix(0, ns), nil
}

// checkPath returns an error unless a path belongs to the tier and no other file has it.
func (m *Manifest) checkPath(name string, tier Tier, names *nameSet) error {
	if err := checkName(name); err != nil {
		return err
	}
	if tier == World {
		if name != worldName {
			return errors.New("the document of the world has another name")
		}
		return names.add(name)
	}
	agent, gotTier, _, ok := splitPath(name)
	if !ok || gotTier != tier {
		return fmt.Errorf("it is not a path of the %s tier", tier)
	}
	if !slices.ContainsFunc(m.Agents, func(a AgentInfo) bool { return a.Name == agent }) {
		return fmt.Errorf("there is no agent %q", agent)
	}
	return names.add(name)
}

// checkOthers checks empty directories and links.
func (m *Manifest) checkOthers(names *nameSet) error {
	if len(m.Dirs)+len(m.Links) > maxEntries {
		return fmt.Errorf("it has more than %d directories and links", maxEntries)
	}
	if len(m.Omitted) > maxEntries {
		return fmt.Errorf("it lists more than %d files that were left out", maxEntries)
	}
	for i, d := range m.Dirs {
		_, tier, _, _ := splitPath(d)
		if err := m.checkPath(d, tier, names); err != nil {
			return fmt.Errorf("directory %q: %w", d, err)
		}
		if i > 0 && m.Dirs[i-1] >= d {
			return errors.New("the directories are not in order")
		}
	}
	for i, l := range m.Links {
		if err := m.checkPath(l.Path, Workspace, names); err != nil {
			return fmt.Errorf("link %q: %w", l.Path, err)
		}
		if i > 0 && m.Links[i-1].Path >= l.Path {
			return errors.New("the links are not in order")
		}
	}
	return checkLinks(m.Links)
}

func splitPath(name string) (agent string, tier Tier, rest string, ok bool) {
	name, ok = strings.CutPrefix(name, "agents/")
	agent, name, inAgent := strings.Cut(name, "/")
	dir, rest, inTier := strings.Cut(name, "/")
	if ok && inAgent && inTier {
		switch tier = Tier(dir); tier {
		case Workspace, Session, Thread:
			return agent, tier, rest, true
		}
	}
	return "", "", "", false
}
