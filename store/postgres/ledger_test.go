package postgres

import (
	"testing"

	"github.com/dalsegno/segno/internal/testing/ledgertest"
)

// TestLedger runs the cases of internal/ledger on the statement that admits commits.
func TestLedger(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) ledgertest.Store { return openStore(t, Options{}) }, true)
}
