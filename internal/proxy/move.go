package proxy

import "context"

// moveTo makes the session usable where the client opened it now. The copy where it
// was stays.
func (s *session) moveTo(ctx context.Context, from string) error {
	if s.thread == "" || from == "" || from == s.page.Dir {
		return nil
	}
	h, err := s.footing(ctx)
	if err != nil {
		return err
	}
	s.on = nil
	if h.link == nil {
		return nil
	}
	site, err := s.site(ctx)
	if err != nil {
		return err
	}
	link := *h.link
	if t := site.Transcripts[s.page.Agent]; t != nil {
		src, err := t.Find(ctx, link.Session)
		if err == nil {
			src, err = t.Relocate(ctx, src, s.page.Dir)
		}
		if err != nil {
			s.proxy.logf("%s: bring the session to %s: %v", brief(s.id), s.page.Dir, err)
			return nil // the ladder has other rungs
		}
		link.Path = src.Path
	}
	link.Dir, link.Start, link.Reason = s.page.Dir, s.proxy.Place.Now(), "move"
	return s.join(ctx, link)
}
