package segnogenkit_test

import (
	"testing"

	"github.com/dalsegno/segno/internal/testing/programrig"
)

func TestOldestGenkit(t *testing.T) {
	programrig.RunWith(t, "github.com/firebase/genkit/go", "v1.4.0")
}

func TestNewestGenkit(t *testing.T) {
	programrig.RunWith(t, "github.com/firebase/genkit/go", "v1.7.0")
}
