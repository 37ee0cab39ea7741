package local_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/testing/recording"
	"github.com/dalsegno/segno/transcript"
)

// readUsage returns the history of a thread, its own turns, and what they used.
func readUsage(t *testing.T, store *local.Store, thread segno.ThreadID) (*history.History, []segno.Checkpoint, map[segno.CommitID][]transcript.Usage) {
	t.Helper()
	h, err := history.Read(t.Context(), store, thread)
	if err != nil {
		t.Fatal(err)
	}
	own := h.OwnTurns(thread)
	r := history.UsageReader{Source: &turns.Source{Store: store, Transcripts: store.Transcripts()}}
	used, err := r.Read(t.Context(), h, own)
	if err != nil {
		t.Fatal(err)
	}
	for i := range own { // one turn alone has the same usage
		alone, err := r.Read(t.Context(), h, own[i:i+1])
		if diff := cmp.Diff(used[own[i].ID], alone[own[i].ID]); diff != "" || err != nil {
			t.Errorf("turn %d alone: %s, %v", own[i].Turn, diff, err)
		}
	}
	return h, own, used
}

// counted are the tokens of calls, counted from the agent's files: Claude Code by the ids of messages, Codex by the records of
// single calls, which the readers do not use.
func (h *recordedHome) counted(session segno.SessionID, most int64, seen map[string]bool) (in, out int64) {
	h.Helper()
	files, err := recording.Rollouts(h.home(), string(session))
	if h.agent == "claude" {
		main := h.transcript(session)
		files, err = filepath.Glob(strings.TrimSuffix(main, ".jsonl") + "/subagents/*.jsonl")
		files = append(files, main)
	}
	if err != nil {
		h.Fatal(err)
	}
	last := map[string][2]int64{}
	for _, file := range files {
		data := h.read(file)
		if h.agent == "claude" && !strings.Contains(file, "subagents") {
			data = data[:most]
		}
		for line := range strings.Lines(data) {
			var r struct {
				Type    string
				Message struct {
					ID    string
					Model string
					Usage *struct {
						In    int64 `json:"input_tokens"`
						Out   int64 `json:"output_tokens"`
						Read  int64 `json:"cache_read_input_tokens"`
						Write int64 `json:"cache_creation_input_tokens"`
					}
				}
				Payload struct {
					ID    string `json:"response_id"`
					Usage struct {
						In  int64 `json:"input_tokens"`
						Out int64 `json:"output_tokens"`
					}
				}
			}
			_ = json.Unmarshal([]byte(line), &r) // a damaged line has no call
			if u := r.Message.Usage; r.Type == "assistant" && u != nil && r.Message.Model != "<synthetic>" {
				last[r.Message.ID] = [2]int64{u.In + u.Read + u.Write, u.Out}
			}
			if r.Type == "token_usage_record" {
				last[r.Payload.ID] = [2]int64{r.Payload.Usage.In, r.Payload.Usage.Out}
			}
		}
	}
	for id, n := range last {
		if !seen[id] {
			seen[id] = true
			in, out = in+n[0], out+n[1]
		}
	}
	return in, out
}

// TestUsageOfRecordedSessions compares the sums of the turns of real sessions, their forks, compactions and subagents with the
// calls in the agent's files.
func TestUsageOfRecordedSessions(t *testing.T) {
	all, err := recording.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		t.Run(s.Agent+"/"+s.Name, func(t *testing.T) {
			t.Parallel()
			h := newRecordedHome(t, s)
			store := h.open()
			found, _ := h.place.FindSessions(t.Context())
			seen := map[string]bool{}
			for _, f := range slices.Backward(found) {
				k, err := store.SessionTimeline().KeepSession(t.Context(), h.request(f.Session))
				if err != nil {
					t.Fatal(err)
				}
				_, own, used := readUsage(t, store, k.Thread)
				var sum *history.Usage
				for i := range own {
					sum = sum.Add(history.NewUsage(used[own[i].ID], nil))
				}
				if sum == nil {
					sum = &history.Usage{}
				}
				if s.Name == "reverted" {
					continue // the session no longer has the turn that the user reverted
				}
				if in, out := h.counted(f.Session, k.At.Offset, seen); in != sum.Input || out != sum.Output {
					t.Errorf("%s: %d in, %d out, want %d and %d", f.Session, sum.Input, sum.Output, in, out)
				}
				switch s.Name {
				case "rich-sidecars":
					if sum.Subagents == nil || sum.Subagents.Calls == 0 {
						t.Errorf("no calls of subagents: %+v", sum)
					}
				case "tools":
					if first := history.NewUsage(used[own[0].ID], nil); s.Agent == "codex" && (first.Calls != 3 || first.Input != 30622 || first.Output != 66 || *first.Reasoning != 0) {
						t.Errorf("the first turn used %+v", first)
					}
				}
			}
		})
	}
}
