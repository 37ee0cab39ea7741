package company

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/world"
)

// Line is one line of the ledger, which records all that happened, in order.
type Line struct {
	Time     segno.SimTime `json:"time"`
	Agent    string        `json:"agent,omitempty"` // "" concerns all
	Kind     LineKind      `json:"kind"`
	Good     string        `json:"good,omitempty"`
	Quantity int           `json:"quantity,omitempty"`
	Wanted   int           `json:"wanted,omitempty"` // by customers
	Price    int64         `json:"price,omitempty"`
	Amount   int64         `json:"amount,omitempty"` // of money that the agent got, or its cash
	With     string        `json:"with,omitempty"`
	Offer    int           `json:"offer,omitempty"`
	Due      segno.SimTime `json:"due,omitempty"`
	Note     string        `json:"note,omitempty"`
}

// LineKind is the kind of a [Line].
type LineKind string

// The kinds of line.
const (
	LineJoin     LineKind = "join"
	LineSay      LineKind = "say"
	LineOrder    LineKind = "order"
	LineDelivery LineKind = "delivery"
	LinePrice    LineKind = "price"
	LineOffer    LineKind = "offer"
	LineTrade    LineKind = "trade"
	LineRefused  LineKind = "refused"
	LineSale     LineKind = "sale"
	LineClose    LineKind = "close" // of a day, with the cash
	LineNews     LineKind = "news"  // of a fair
	LineFair     LineKind = "fair"
	LineStorm    LineKind = "storm"
)

// String returns the line in words, without its time.
func (l Line) String() string {
	units := fmt.Sprintf("%d %s", l.Quantity, l.Good)
	if l.Quantity == 1 {
		units = strings.TrimSuffix(units, "s")
	}
	switch l.Kind {
	case LineJoin:
		return fmt.Sprintf("%s opens a branch with %s", l.Agent, money(l.Amount))
	case LineSay:
		return fmt.Sprintf("%s: %q", l.Agent, l.Note)
	case LineOrder:
		n, _ := dayOf(l.Due)
		return fmt.Sprintf("%s orders %s for %s, due on day %d", l.Agent, units, money(-l.Amount), n)
	case LineDelivery:
		return fmt.Sprintf("%s receives %s", l.Agent, units)
	case LinePrice:
		return fmt.Sprintf("%s sells %s at %s from now on", l.Agent, l.Good, money(l.Price))
	case LineOffer:
		return fmt.Sprintf("%s offers %s %s at %s each (offer %d)", l.Agent, l.With, units, money(l.Price), l.Offer)
	case LineTrade:
		return fmt.Sprintf("%s buys %s from %s for %s", l.Agent, units, l.With, money(-l.Amount))
	case LineRefused:
		return fmt.Sprintf("%s cannot %s", l.Agent, l.Note)
	case LineSale:
		return fmt.Sprintf("%s sells %s of %d wanted, for %s", l.Agent, units, l.Wanted, money(l.Amount))
	case LineClose:
		return fmt.Sprintf("%s closes the day with %s", l.Agent, money(l.Amount))
	case LineNews:
		n, _ := dayOf(l.Due)
		return fmt.Sprintf("a fair for %s is announced for day %d", l.Good, n)
	case LineFair:
		return fmt.Sprintf("the fair for %s begins", l.Good)
	case LineStorm:
		return fmt.Sprintf("a storm delays %d deliveries by a day", l.Quantity)
	}
	return string(l.Kind)
}

// money formats an amount of cents as a decimal number.
func money(cents int64) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

// Outcomes implements [world.Measurer]. Money is in units of 100 cents.
func (rules) Outcomes(s *State, _ []string) world.Outcomes {
	var cash int64
	var sold, missed, trades int
	for _, b := range s.Branches {
		cash += b.Cash
	}
	for _, l := range s.Ledger {
		switch l.Kind {
		case LineSale:
			sold += l.Quantity
			missed += l.Wanted - l.Quantity
		case LineTrade:
			trades++
		}
	}
	return world.Outcomes{"cash": float64(cash) / 100, "units_sold": float64(sold), "units_missed": float64(missed), "trades": float64(trades)}
}

func (s *State) write(l Line) { s.Ledger = append(s.Ledger, l) }

// recent returns the last n lines that an agent may read: its own lines, lines for all agents, and
// trades with it.
func (s *State) recent(name string, n int) []Line {
	lines := []Line{}
	for _, l := range slices.Backward(s.Ledger) {
		if len(lines) == n {
			break
		}
		if l.Kind != LineSay && (l.Agent == "" || l.Agent == name || l.With == name) {
			lines = append(lines, l)
		}
	}
	slices.Reverse(lines)
	return lines
}

// Story returns the lines of the ledger with the part of the day.
func Story() world.Story {
	told := 0
	return world.StoryOf(func(_ world.Header, s *State) (lines []string) {
		for _, l := range s.Ledger[min(told, len(s.Ledger)):] {
			n, part := dayOf(l.Time)
			lines = append(lines, fmt.Sprintf("day %-2d %-9s  %s", n, part, l))
		}
		told = len(s.Ledger)
		return lines
	})
}
