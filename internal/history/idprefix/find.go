// Package idprefix finds a checkpoint, a thread or any other item by its id, or by a unique prefix
// of its id. The command line and the chat use it for the ids that a user types.
package idprefix

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/printable"
)

// Query is an id that the user typed, with the kind of item that it names.
type Query struct {
	What string // the noun for errors, as in "checkpoint"
	Name string // an id or a prefix of an id
	Hint string // the hint of the error if no id begins with Name; may be empty
	// Turns is set if Name may also be the name of a turn, such as t7. A name of this form that is shorter than a
	// printed id always means a turn, even if an id begins with the same letters.
	Turns bool
}

// IsTurnName reports whether a name has the form of a turn's name, such as t4.
func IsTurnName(name string) bool {
	number, ok := strings.CutPrefix(name, "t")
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}

// PointName splits the name of a point inside a turn, such as t4.2, into the name of the turn and a number from 1.
func PointName(name string) (turn string, n int, ok bool) {
	turn, number, _ := strings.Cut(name, ".")
	n, err := strconv.Atoi(number)
	return turn, n, IsTurnName(turn) && err == nil && n > 0 && strings.Trim(number, "0123456789") == ""
}

// maxNamed is the number of matching ids that an error lists.
const maxNamed = 3

// Find returns the item with the id q.Name or, if there is none, the only item with an id that
// begins with q.Name. If several items have the same id, Find returns the first. The error has
// KindNotFound if no id begins with q.Name or q.Name is empty, and KindInvalid if several ids begin
// with it. Find returns errors of items unchanged.
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
	var none T
	return none, q.ambiguous(ids)
}

func (q Query) ambiguous(ids []string) error {
	matches := strings.Join(ids[:min(len(ids), maxNamed)], ", ")
	if len(ids) > maxNamed {
		matches += " and more"
	}
	return segno.NewError(segno.KindInvalid, "", "", fmt.Errorf("ambiguous %s prefix %q: matches %s", q.What, q.Name, matches)).
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
