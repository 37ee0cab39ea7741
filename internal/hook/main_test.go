package hook_test

import (
	"testing"

	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/testing/parallel"
)

func TestMain(m *testing.M) {
	memdir.Use()
	parallel.Double()
	m.Run()
}
