package timeline

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dalsegno/segno"
)

// TestPlansNameTheirFilesExactly writes a plan as the journal does and reads it back, because
// an interrupted move must be completed on the files for which it was planned.
func TestPlansNameTheirFilesExactly(t *testing.T) {
	odd := []string{"plain", "caf\xe9", "new\nline", "d\xff/x", "\uFFFD"}
	var p Plan
	for _, path := range odd {
		p.Steps = append(p.Steps, segno.Change{Path: path, From: file("1"), To: segno.Entity{Type: segno.EntitySymlink, Target: path}, Merged: true})
		p.Conflicts = append(p.Conflicts, segno.Conflict{Path: path, Why: "why"})
	}
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var got Plan
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, got, cmpopts.IgnoreUnexported(FilePlan{}, Plan{})); diff != "" {
		t.Error(diff)
	}
}
