package stream

import (
	"github.com/millrace/millrace/internal/server/apiserver/internal/negotiate"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/watchcache"
	"github.com/millrace/millrace/internal/server/wire"
)

// conversionBatch is how many objects a watch has converted at a time by a conversion webhook.
const conversionBatch = 2000

// prepare has objects converted before they are written. If that fails, the error is found again when the object in
// question is written.
func (s *Stream) prepare(objects []*watchcache.Object) {
	if shape := s.Answer.Format.Shape; shape == negotiate.Object || shape == negotiate.Table {
		_ = wire.Prepare(s.Answer.Within, s.Answer.Kind, objects)
	}
}

// drainForeign writes the available events and has their objects converted together: one by one, a burst of events
// would take as many sequential requests to the webhook.
func (s *Stream) drainForeign() bool {
	var events []registry.Event
	var objects []*watchcache.Object
	var ended error
	for len(events) < conversionBatch {
		e, ok, err := s.watcher.Next()
		if ended = err; !ok || err != nil {
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
	if ended != nil {
		s.endWith(ended)
		return false
	}
	s.frames.flush()
	return s.frames.err == nil
}
