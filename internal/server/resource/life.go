package resource

import "context"

// Life is the time during which watches may show objects as a Kind describes them. Kinds that describe them equally
// share one Life.
type Life struct {
	ctx context.Context
	end context.CancelFunc
}

// NewLife makes a Life that has not ended.
func NewLife() *Life {
	l := &Life{}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// OnEnd calls f, in its own goroutine, when the life ends. A nil Life does not end. stop cancels the call.
func (l *Life) OnEnd(f func()) (stop func() bool) {
	if l == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(l.ctx, f)
}
