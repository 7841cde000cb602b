package cri

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/sleep"
)

// rarely is how many polls are skipped between two comparisons while the runtime sends events.
const rarely = 30

// poll finds changes in a runtime: by its events, and by comparing lists.
type poll struct {
	runtime *Runtime
	changed func(types.UID)
	seen    map[types.UID]map[string]container.State
	// wake requests a comparison soon. events is set while the runtime sends events.
	wake   chan struct{}
	events chan bool
}

func newPoll(r *Runtime, changed func(types.UID)) *poll {
	return &poll{runtime: r, changed: changed, wake: make(chan struct{}, 1), events: make(chan bool, 1)}
}

func (p *poll) run(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.follow(ctx)
	}()
	defer func() { <-done }()
	every, skip := p.runtime.PollEvery, 0
	timer := time.NewTimer(0)
	defer timer.Stop()
	following := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case following = <-p.events:
			continue
		case <-p.wake:
		case <-timer.C:
			timer.Reset(every)
			if skip++; following && skip < rarely {
				continue
			}
		}
		skip = 0
		p.compare(ctx)
	}
}

// follow receives the runtime's events, if it has any.
func (p *poll) follow(ctx context.Context) {
	for ctx.Err() == nil {
		stream, err := p.runtime.runtime.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
		for began := false; err == nil; {
			var event *runtimeapi.ContainerEventResponse
			if event, err = stream.Recv(); err != nil {
				break
			}
			if !began {
				began = true
				p.tell(ctx, true)
			}
			if uid := event.GetPodSandboxStatus().GetMetadata().GetUid(); uid != "" {
				p.changed(types.UID(uid))
				continue
			}
			p.look()
		}
		p.tell(ctx, false)
		if status.Code(err) == codes.Unimplemented {
			return
		}
		sleep.For(ctx, time.Second)
	}
}

func (p *poll) tell(ctx context.Context, following bool) {
	select {
	case p.events <- following:
	case <-ctx.Done():
	}
}

func (p *poll) look() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *poll) compare(ctx context.Context) {
	pods, err := p.runtime.Pods(ctx)
	if err != nil {
		if ctx.Err() == nil {
			p.runtime.Logger.Warn("container runtime does not answer", "err", err)
		}
		return
	}
	p.runtime.compareDone()
	now := make(map[types.UID]map[string]container.State, len(pods))
	for i := range pods {
		states := map[string]container.State{}
		for _, b := range pods[i].Sandboxes {
			states[b.ID] = container.Exited
			if b.Ready {
				states[b.ID] = container.Running
			}
		}
		for _, c := range pods[i].Containers {
			states[c.ID] = c.State
		}
		now[pods[i].UID] = states
	}
	for uid, states := range now {
		if !same(p.seen[uid], states) {
			p.changed(uid)
		}
	}
	for uid := range p.seen {
		if now[uid] == nil {
			p.changed(uid)
		}
	}
	p.seen = now
}

func same(a, b map[string]container.State) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}
