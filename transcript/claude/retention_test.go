package claude_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dalsegno/segno/transcript/claude"
)

// TestTheStrongestSettingDecidesWhenSessionsAreDeleted adds settings one after the other. Each overrides those before.
func TestTheStrongestSettingDecidesWhenSessionsAreDeleted(t *testing.T) {
	root := t.TempDir()
	home, project, managed := filepath.Join(root, "home"), filepath.Join(root, "project"), filepath.Join(root, "managed")
	c := claude.New(home, claude.Options{Managed: managed})
	for _, step := range []struct {
		file, text string
		days       float64 // 0 for never
	}{
		{"", "", 30},
		{filepath.Join(home, "settings.json"), `{"cleanupPeriodDays":10}`, 10},
		{filepath.Join(project, ".claude", "settings.json"), `{"cleanupPeriodDays":365}`, 365},
		{filepath.Join(project, ".claude", "settings.local.json"), `{"model":"x"}`, 365},
		{filepath.Join(project, ".claude", "settings.local.json"), `{"cleanupPeriodDays":0.5}`, 0.5},
		{filepath.Join(managed, "managed-settings.json"), `{"cleanupPeriodDays":90}`, 90},
		{filepath.Join(managed, "managed-settings.d", "10-a.json"), `{"cleanupPeriodDays":20}`, 20},
		{filepath.Join(managed, "managed-settings.d", "20-b.json"), `{"cleanupPeriodDays":0}`, 0},
		{filepath.Join(managed, "managed-settings.d", "30-torn.json"), `{"cleanupPeriodDays":`, 0},
	} {
		if step.file != "" {
			if err := os.MkdirAll(filepath.Dir(step.file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(step.file, []byte(step.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		age, ok := c.RetentionIn(project)
		if ok != (step.days > 0) || ok && age != time.Duration(step.days*24*float64(time.Hour)) {
			t.Errorf("with %s: %v, %t; want %v days", step.file, age, ok, step.days)
		}
	}
}
