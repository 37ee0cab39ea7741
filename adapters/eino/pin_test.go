package segnoeino_test

import (
	"testing"

	"github.com/dalsegno/segno/internal/testing/programrig"
)

// The oldest version of Eino that the module allows. go.work selects a newer one for other tests.
func TestOldestEino(t *testing.T) {
	programrig.RunWith(t, "github.com/cloudwego/eino", "v0.7.36")
}

func TestNewestEino(t *testing.T) {
	programrig.RunWith(t, "github.com/cloudwego/eino", "v0.9.13")
}
