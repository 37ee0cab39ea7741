package hook_test

import (
	"testing"

	"github.com/dalsegno/segno/internal/testing/memdir"
)

func TestMain(m *testing.M) {
	memdir.Use()
	m.Run()
}
