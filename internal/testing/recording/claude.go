package recording

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"
)

// Row is one decoded line of a transcript.
type Row = map[string]any

// Claude is the state of Claude Code 2.1.197 while it loads a transcript. It implements the loading
// independently of package claude: on decoded JSON, in the agent's own steps.
type Claude struct {
	order []string // uuids in the order of a JavaScript Map
	rows  map[string]Row
	skip  map[string]string

	newest, leaf      string
	explicit, cleared bool
}

func str(r Row, key string) string { s, _ := r[key].(string); return s }

// LoadClaude reads a transcript.
func LoadClaude(data []byte) *Claude {
	l := &Claude{rows: map[string]Row{}, skip: map[string]string{}}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	for _, text := range bytes.Split(data, []byte("\n")) {
		text = bytes.TrimSpace(text)
		var r Row
		if len(text) == 0 || json.Unmarshal(text, &r) != nil {
			continue
		}
		l.add(r)
	}
	return l
}

func (l *Claude) add(r Row) {
	uuid, parent := str(r, "uuid"), str(r, "parentUuid")
	switch str(r, "type") {
	case "progress":
		if to, ok := l.skip[parent]; ok {
			parent = to
		}
		l.skip[uuid] = parent
	case "user", "assistant", "attachment", "system":
		if to, ok := l.skip[parent]; ok {
			r["parentUuid"] = to
		}
		if _, ok := l.rows[uuid]; !ok {
			l.order = append(l.order, uuid)
		}
		l.rows[uuid] = r
		if r["isSidechain"] != true {
			l.newest, l.explicit, l.cleared = uuid, false, false
		}
		if boundary(r) {
			l.leaf, l.explicit = "", false
		}
	case "last-prompt":
		if to := str(r, "leafUuid"); to != "" {
			l.explicit = r["explicit"] == true || l.explicit && to == l.leaf
			l.leaf, l.cleared = to, false
		} else if v, ok := r["leafUuid"]; ok && v == nil && r["explicit"] == true {
			l.cleared, l.leaf, l.explicit = true, "", false
		}
	}
}

func boundary(r Row) bool {
	return str(r, "type") == "system" && str(r, "subtype") == "compact_boundary"
}

func isMessage(r Row) bool { return str(r, "type") == "user" || str(r, "type") == "assistant" }

func list(v any) (out []string) {
	a, _ := v.([]any)
	for _, x := range a {
		s, _ := x.(string)
		out = append(out, s)
	}
	return out
}

// ApplyCompaction re-attaches the records that the newest compaction preserved, and drops the records before
// the compaction. It returns the last preserved uuid.
func (l *Claude) ApplyCompaction() string {
	last, lastMeta := -1, -1
	var meta Row
	for i, u := range l.order {
		if !boundary(l.rows[u]) {
			continue
		}
		last = i
		if m, ok := l.rows[u]["compactMetadata"].(Row); ok && (m["preservedMessages"] != nil || m["preservedSegment"] != nil) {
			meta, lastMeta = m, i
		}
	}
	if meta == nil {
		return ""
	}
	var keep []string
	anchor := ""
	if last == lastMeta {
		if m, ok := meta["preservedMessages"].(Row); ok {
			keep, anchor = list(m["uuids"]), str(m, "anchorUuid")
		} else {
			m := meta["preservedSegment"].(Row)
			anchor = str(m, "anchorUuid")
			u := str(m, "tailUuid")
			for {
				if l.rows[u] == nil || slices.Contains(keep, u) {
					return ""
				}
				keep = append(keep, u)
				if u == str(m, "headUuid") {
					break
				}
				u = str(l.rows[u], "parentUuid")
			}
			slices.Reverse(keep)
		}
		for _, u := range keep {
			if l.rows[u] == nil {
				return ""
			}
		}
	}
	if len(keep) > 0 {
		at := anchor
		for _, u := range keep {
			l.rows[u]["parentUuid"] = at
			at = u
		}
		for _, u := range l.order {
			if str(l.rows[u], "parentUuid") == anchor && u != keep[0] {
				l.rows[u]["parentUuid"] = at
			}
		}
	}
	dropped := map[string]bool{}
	for _, u := range l.order[:last] {
		if !slices.Contains(keep, u) {
			dropped[u] = true
			delete(l.rows, u)
		}
	}
	l.order = slices.DeleteFunc(l.order, func(u string) bool { return dropped[u] })
	if len(keep) == 0 {
		return ""
	}
	for _, r := range l.rows {
		if isMessage(r) && dropped[str(r, "parentUuid")] {
			r["parentUuid"] = keep[len(keep)-1]
		}
	}
	return keep[len(keep)-1]
}

// Message returns the nearest message at or above a record, "" if there is none.
func (l *Claude) Message(u string) string {
	seen := map[string]bool{}
	for r := l.rows[u]; r != nil && !seen[u]; r = l.rows[u] {
		if isMessage(r) {
			return u
		}
		seen[u] = true
		u = str(r, "parentUuid")
	}
	return ""
}

func (l *Claude) isAbove(top, u string) bool {
	seen := map[string]bool{}
	for u != "" && !seen[u] {
		if u == top {
			return true
		}
		seen[u] = true
		u = str(l.rows[u], "parentUuid")
	}
	return false
}

// Head returns the record from which the agent continues. It changes l as the agent changes its map.
func (l *Claude) Head() string {
	kept := l.ApplyCompaction()
	if l.cleared {
		return ""
	}
	explicit := l.explicit && l.rows[l.leaf] != nil && l.rows[l.leaf]["isSidechain"] != true
	if kept == "" || explicit {
		to := ""
		if l.rows[l.leaf] != nil {
			to = l.leaf
		}
		if to != "" && !l.explicit && l.rows[l.newest] != nil && l.isAbove(to, l.newest) {
			to = l.newest
		}
		if kept == "" && to == "" {
			to = l.newest
		}
		if u := l.Message(to); u != "" {
			return u
		}
	}
	hasChild, answered := map[string]bool{}, map[string]bool{}
	for _, r := range l.rows {
		if p := str(r, "parentUuid"); p != "" {
			hasChild[p] = true
			answered[p] = answered[p] || isMessage(r)
		}
	}
	leaves := map[string]bool{}
	for _, u := range l.order {
		if !hasChild[u] {
			if s := l.Message(u); s != "" && !answered[s] {
				leaves[s] = true
			}
		}
	}
	if len(leaves) > 1 {
		to := l.newest
		if leaves[l.leaf] {
			to = l.leaf
		}
		if s := l.Message(to); s != "" {
			return s
		}
	}
	best, at := "", math.Inf(-1)
	for _, u := range l.order {
		r := l.rows[u]
		if r["isSidechain"] == true || len(leaves) > 0 && !leaves[u] {
			continue
		}
		if t := when(r); t > at {
			best, at = u, t
		}
	}
	return l.Message(best)
}

func when(r Row) float64 {
	t, err := time.Parse(time.RFC3339Nano, str(r, "timestamp"))
	if err != nil {
		return math.NaN()
	}
	return float64(t.UnixMilli())
}

// Messages returns the conversation that ends at a record, oldest first.
func (l *Claude) Messages(head string) []Row {
	var chain []string
	seen := map[string]bool{}
	for u := head; l.rows[u] != nil; {
		seen[u] = true
		chain = append(chain, u)
		p := str(l.rows[u], "parentUuid")
		if p == "" {
			break
		}
		if l.rows[p] == nil || seen[p] {
			p = l.nearest(u, seen)
		}
		u = p
	}
	slices.Reverse(chain)
	chain = l.recover(chain, seen)
	chain = append(chain, l.trailing(head, seen)...)
	var out []Row
	for _, u := range chain {
		out = append(out, l.rows[u])
	}
	return out
}

func (l *Claude) nearest(u string, seen map[string]bool) string {
	best, least := "", math.Inf(1)
	for _, v := range l.order {
		if seen[v] || l.rows[v]["isSidechain"] != l.rows[u]["isSidechain"] {
			continue
		}
		if d := when(l.rows[u]) - when(l.rows[v]); d >= 0 && d <= 5000 && d < least {
			best, least = v, d
		}
	}
	return best
}

func messageID(r Row) string {
	m, _ := r["message"].(Row)
	if str(r, "type") != "assistant" {
		return ""
	}
	return str(m, "id")
}

func isResult(r Row) bool {
	m, _ := r["message"].(Row)
	content, _ := m["content"].([]any)
	return str(r, "type") == "user" && slices.ContainsFunc(content, func(b any) bool {
		block, _ := b.(Row)
		return block["type"] == "tool_result"
	})
}

// recover inserts the blocks and results of parallel tool calls.
func (l *Claude) recover(chain []string, seen map[string]bool) []string {
	last := map[string]string{}
	for _, u := range chain {
		if id := messageID(l.rows[u]); id != "" {
			last[id] = u
		}
	}
	after := map[string][]string{}
	done := map[string]bool{}
	byTime := func(a, b string) int {
		return strings.Compare(str(l.rows[a], "timestamp"), str(l.rows[b], "timestamp"))
	}
	for _, u := range chain {
		id := messageID(l.rows[u])
		if id == "" || done[id] {
			continue
		}
		done[id] = true
		var blocks, results []string
		for _, v := range l.order {
			if messageID(l.rows[v]) == id && !seen[v] {
				blocks = append(blocks, v)
			}
		}
		for _, v := range l.order {
			if isResult(l.rows[v]) && !seen[v] && messageID(l.rows[str(l.rows[v], "parentUuid")]) == id {
				results = append(results, v)
			}
		}
		slices.SortStableFunc(blocks, byTime)
		slices.SortStableFunc(results, byTime)
		for _, v := range append(blocks, results...) {
			seen[v] = true
			after[last[id]] = append(after[last[id]], v)
		}
	}
	var out []string
	for _, u := range chain {
		out = append(append(out, u), after[u]...)
	}
	return out
}

// trailing returns the records below the head that are not messages.
func (l *Claude) trailing(head string, seen map[string]bool) []string {
	var out []string
	for todo := []string{head}; len(todo) > 0; todo = todo[1:] {
		for _, v := range l.order {
			if str(l.rows[v], "parentUuid") == todo[0] && !isMessage(l.rows[v]) && !seen[v] {
				seen[v] = true
				out = append(out, v)
				todo = append(todo, v)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b string) int {
		return strings.Compare(str(l.rows[a], "timestamp"), str(l.rows[b], "timestamp"))
	})
	return out
}
