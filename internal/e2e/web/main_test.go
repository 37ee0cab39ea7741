// Package web_test uses segno's page as a user does: with a mouse and a keyboard in a real Chromium, on
// stores that the command and real agents recorded.
package web_test

import (
	"os"
	"testing"

	"github.com/dalsegno/segno/internal/testing/e2erig"
)

func TestMain(m *testing.M) { e2erig.Main(m) }

// soak reports whether the long journeys run.
func soak() bool { return os.Getenv("SEGNO_SOAK") != "" }
