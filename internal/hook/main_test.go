package hook_test

import (
	"testing"

	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/testing/parallel"
	"github.com/dalsegno/segno/internal/testing/soak"
)

func TestMain(m *testing.M) {
	soak.DrawIfShort()
	memdir.Use()
	parallel.Double()
	m.Run()
}
