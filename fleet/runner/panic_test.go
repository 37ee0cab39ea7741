package runner_test

import (
	"context"
	"testing"

	"github.com/dalsegno/segno/internal/testing/acptest"
)

// TestAPanicReleasesTheThread lets PrepareHome panic, which a worker survives. The next attempt of the same worker runs.
func TestAPanicReleasesTheThread(t *testing.T) {
	m := newStage(t).machine("one")
	m.PrepareHome = func(context.Context, string) error { panic("the preparation has a defect") }
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the preparation did not panic")
			}
		}()
		_, _ = m.run("a", "a")
	}()
	m.PrepareHome = nil
	if _, err := m.run("a", "a "+acptest.Directive(acptest.Say("done"))); err != nil {
		t.Errorf("the next attempt: %v", err)
	}
}
