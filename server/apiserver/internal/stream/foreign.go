package stream

import (
	"github.com/millrace/millrace/server/apiserver/internal/negotiate"
	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/watchcache"
	"github.com/millrace/millrace/server/wire"
)

// foresight is how many objects a watch has converted at a time, where others convert them.
const foresight = 2000

// prepare has objects converted that are about to be written. If that fails, the one that it is about is found when it is written.
func (s *Stream) prepare(objects []*watchcache.Object) {
	if shape := s.Answer.Format.Shape; shape == negotiate.Object || shape == negotiate.Table {
		_ = wire.Prepare(s.Answer.Within, s.Answer.Kind, objects)
	}
}

// drainForeign writes the events that are there, and has their objects converted together: one by one, a burst of events would
// take as many requests one after the other.
func (s *Stream) drainForeign() bool {
	var events []registry.Event
	var objects []*watchcache.Object
	var over error
	for len(events) < foresight {
		e, ok, err := s.watcher.Next()
		if over = err; !ok || err != nil {
			break
		}
		events, objects = append(events, e), append(objects, e.Object)
	}
	s.prepare(objects)
	for _, e := range events {
		if s.frames.event(e); s.frames.err != nil {
			return s.failed()
		}
	}
	if over != nil {
		s.over(over)
		return false
	}
	s.frames.flush()
	return s.frames.err == nil
}
