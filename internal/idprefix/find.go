// Package idprefix finds a checkpoint, a thread or any other item by its id or by a prefix of
// its id that no other item shares. The command line and the chat use it for the ids that a
// user types.
package idprefix

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/printable"
)

// Query is an id that the user typed, and the kind of item that it names.
type Query struct {
	What string // the noun for errors, as in "checkpoint"
	Name string // an id or a prefix of an id
	Hint string // the hint of the error if no id begins with Name, may be empty
	// Turns is set if Name may also be that of a turn, such as t7. A name of this form with fewer letters than are printed of an id
	// means a turn, and no id that happens to begin like it.
	Turns bool
}

// IsTurnName reports whether a name has the form of a turn's, such as t4.
func IsTurnName(name string) bool {
	number, ok := strings.CutPrefix(name, "t")
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}

// maxNamed is how many of the matching ids an error lists.
const maxNamed = 3

// Find returns the item with the id q.Name or, if there is none, the only item with an id that
// begins with q.Name. Items with the same id count as one, and the first is returned. It returns
// KindNotFound if no id begins with q.Name or q.Name is empty, KindInvalid if several ids do,
// and errors of items as they are.
func Find[T any](q Query, items iter.Seq2[T, error], id func(T) string) (found T, err error) {
	isTurn := q.Turns && IsTurnName(q.Name) && len(q.Name) < printable.ShortLength
	var ids []string
	for item, err := range items {
		if err != nil {
			return found, err
		}
		itemID := id(item)
		if itemID == q.Name && q.Name != "" {
			return item, nil
		}
		if q.Name == "" || isTurn || !strings.HasPrefix(itemID, q.Name) || slices.Contains(ids, itemID) || len(ids) > maxNamed {
			continue
		}
		if ids = append(ids, itemID); len(ids) == 1 {
			found = item
		}
	}
	switch len(ids) {
	case 0:
		return found, segno.NewError(segno.KindNotFound, "find "+q.What, q.Name, nil).WithHint(q.Hint)
	case 1:
		return found, nil
	}
	matches := strings.Join(ids[:min(len(ids), maxNamed)], ", ")
	if len(ids) > maxNamed {
		matches += " and more"
	}
	var none T
	return none, segno.NewError(segno.KindInvalid, "", "", fmt.Errorf("ambiguous %s prefix %q: matches %s", q.What, q.Name, matches)).
		WithHint("give more letters")
}

// Values iterates over items, without errors.
func Values[T any](items []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}
