// Package web_test uses segno's page as a user does: with a mouse and a keyboard in a real Chromium, on
// stores that the command and real agents recorded.
package web_test

import (
	"testing"

	"github.com/dalsegno/segno/internal/testing/e2erig"
)

func TestMain(m *testing.M) { e2erig.Main(m) }
