package company

import (
	"errors"
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/world"
)

// Observation is what an agent perceives.
type Observation struct {
	Time   segno.SimTime    `json:"time"`
	Day    int              `json:"day"`
	Part   string           `json:"part"`
	Name   string           `json:"name"`
	Acted  bool             `json:"acted"` // in this tick
	You    Branch           `json:"you"`
	Market map[string]int64 `json:"market"`
	Fair   string           `json:"fair"` // today's, or ""
	Orders []Order          `json:"orders"`
	Offers []Offer          `json:"offers"` // from you and to you
	Others []string         `json:"others"`
	Ledger []Line           `json:"ledger"` // the newest 12 that concern you
	Chat   []world.Message  `json:"chat"`   // the newest 10
}

// Order is a delivery on its way.
type Order struct {
	Good     string `json:"good"`
	Quantity int    `json:"quantity"`
	Day      int    `json:"day"` // of arrival
}

func (rules) Observe(m world.Moment[State], name string) any {
	s := m.State
	_, acted := s.Pending[name]
	o := Observation{Time: m.Time, Name: name, Acted: acted, You: *s.Branches[name], Market: s.Market, Fair: s.Fair,
		Orders: []Order{}, Offers: []Offer{}, Others: []string{}, Ledger: s.recent(name, 12), Chat: m.Chat(10)}
	o.Day, o.Part = dayOf(m.Time)
	for _, e := range s.Queue {
		if e.Kind == EventDelivery && e.Agent == name {
			n, _ := dayOf(e.At)
			o.Orders = append(o.Orders, Order{Good: e.Good, Quantity: e.Quantity, Day: n})
		}
	}
	for _, offer := range s.Offers {
		if offer.From == name || offer.To == name {
			o.Offers = append(o.Offers, offer)
		}
	}
	for _, other := range m.Names {
		if other != name {
			o.Others = append(o.Others, other)
		}
	}
	return o
}

func sortEvents(all []Event) { slices.SortFunc(all, compareEvents) }

func (rules) Check(s *State, names []string) error {
	if len(s.Branches) != len(names) || len(s.Market) != len(goods()) || !slices.IsSortedFunc(s.Queue, compareEvents) || s.Pending == nil {
		return errors.New("the branches, the market or the queue are inconsistent")
	}
	for _, name := range names {
		if s.Branches[name] == nil {
			return fmt.Errorf("%q has no branch", name)
		}
		if err := s.Branches[name].check(); err != nil {
			return fmt.Errorf("branch of %q: %w", name, err)
		}
	}
	if err := s.checkOpen(names); err != nil {
		return err
	}
	for _, good := range goods() {
		if base := basePrice()[good]; s.Market[good] < base/2 || s.Market[good] > 2*base {
			return fmt.Errorf("%s have an impossible price", good)
		}
	}
	return nil
}

// checkOpen returns an error for an impossible action, event or offer that the world has not completed.
func (s *State) checkOpen(names []string) error {
	known := func(name string) bool { return slices.Contains(names, name) }
	for name, a := range s.Pending {
		if err := a.check(); err != nil || !known(name) {
			return fmt.Errorf("a pending action of %q is impossible", name)
		}
	}
	for _, e := range s.Queue {
		isDelivery := e.Kind == EventDelivery && known(e.Agent) && isQuantity(e.Quantity)
		if !isDelivery && e.Kind != EventFair || !slices.Contains(goods(), e.Good) {
			return fmt.Errorf("event %d is impossible", e.ID)
		}
	}
	for _, o := range s.Offers {
		offer := Action{Do: DoOffer, To: o.To, Good: o.Good, Quantity: o.Quantity, Price: o.Price}
		if !known(o.From) || !known(o.To) || offer.check() != nil {
			return fmt.Errorf("offer %d is impossible", o.ID)
		}
	}
	return nil
}

func (b *Branch) check() error {
	const most = 1 << 40 // no sum of such amounts overflows
	if b.Cash < 0 || b.Cash > most || b.Stock == nil || b.Prices == nil {
		return errors.New("impossible cash or stock")
	}
	for _, good := range goods() {
		if b.Stock[good] < 0 || b.Stock[good] > most || !isPrice(b.Prices[good]) {
			return fmt.Errorf("impossible stock or price of %s", good)
		}
	}
	return nil
}
