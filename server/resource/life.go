package resource

import "context"

// Life is how long what a Kind says of its objects holds. Kinds that say the same of them share one.
type Life struct {
	ctx context.Context
	end context.CancelFunc
}

// NewLife begins one.
func NewLife() *Life {
	l := &Life{}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// OnEnd calls f, in a goroutine of its own, when the life ends. The life may be nil: that one does not end. What is returned
// takes the wish back.
func (l *Life) OnEnd(f func()) (stop func() bool) {
	if l == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(l.ctx, f)
}
