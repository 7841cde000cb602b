package informer

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// aboardOf returns an informer with that many handlers that have all caught up, and what stops it.
func aboardOf(t *testing.T, source *FakeSource[*corev1.Pod], handlers ...Handler[*corev1.Pod]) (*Shared[*corev1.Pod], []*Registration[*corev1.Pod], func()) {
	t.Helper()
	pods := New[*corev1.Pod](source, Options[*corev1.Pod]{})
	var regs []*Registration[*corev1.Pod]
	for _, h := range handlers {
		regs = append(regs, pods.Handle(h))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- pods.Run(ctx) }()
	synctest.Wait()
	return pods, regs, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func (c *crew[T]) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.members)
}

func counting(n *atomic.Int64) Handler[*corev1.Pod] {
	return Handler[*corev1.Pod]{Changed: func(Key) { n.Add(1) }}
}

func TestHandlersThatKeepUpShareAGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard atomic.Int64
		var handlers []Handler[*corev1.Pod]
		for range 50 {
			handlers = append(handlers, counting(&heard))
		}
		source := NewFakeSource(fullPod("one"))
		before := runtime.NumGoroutine()
		pods, _, stop := aboardOf(t, source, handlers...)
		for range 10 {
			source.Modify(fullPod("one"))
			synctest.Wait()
		}
		if heard.Load() != 50*11 || pods.crew.size() != 50 {
			t.Errorf("heard %d times with %d handlers aboard", heard.Load(), pods.crew.size())
		}
		if now := runtime.NumGoroutine(); now > before+5 {
			t.Errorf("%d goroutines, %d before", now, before)
		}
		stop()
	})
}

func TestTheCrewLeavesBehindWhoHoldsItUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard atomic.Int64
		block, release := false, make(chan struct{})
		var told []string
		stuck := Handler[*corev1.Pod]{Updated: func(_, p *corev1.Pod) {
			told = append(told, p.Labels["app"])
			if block {
				<-release
			}
		}}
		source := NewFakeSource(fullPod("one"))
		pods, _, stop := aboardOf(t, source, counting(&heard), stuck, counting(&heard))
		block = true
		for i := range 5 {
			p := fullPod("one")
			p.Labels["app"] = fmt.Sprint(i)
			source.Modify(p)
			time.Sleep(2 * crewPatience)
			synctest.Wait()
			if want := int64(2 + 2*(i+1)); heard.Load() != want {
				t.Errorf("after change %d the others have heard %d times, want %d", i, heard.Load(), want)
			}
		}
		if pods.crew.size() != 2 {
			t.Errorf("%d handlers aboard", pods.crew.size())
		}
		block = false
		close(release)
		synctest.Wait()
		if fmt.Sprint(told) != "[0 4]" {
			t.Errorf("told %v", told)
		}
		time.Sleep(time.Second)
		source.Modify(fullPod("one"))
		synctest.Wait()
		if pods.crew.size() != 3 {
			t.Errorf("%d handlers aboard after it caught up", pods.crew.size())
		}
		stop()
	})
}

func TestWhoIsSlowEachTimeDelaysOthersLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late, sent atomic.Int64 // in nanoseconds
		now := func() int64 { return time.Now().UnixNano() }
		slow := Handler[*corev1.Pod]{Changed: func(Key) { time.Sleep(time.Millisecond) }}
		quick := Handler[*corev1.Pod]{Changed: func(Key) { late.Add(now() - sent.Load()) }}
		source := NewFakeSource(fullPod("one"))
		_, _, stop := aboardOf(t, source, slow, quick)
		late.Store(0)
		for range 1000 {
			sent.Store(now())
			source.Modify(fullPod("one"))
			time.Sleep(10 * time.Millisecond)
		}
		if late := time.Duration(late.Load()); late > 20*crewPatience {
			t.Errorf("a handler was late by %v altogether", late)
		}
		stop()
	})
}

func TestMembersLeaveInEveryWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard atomic.Int64
		var regs []*Registration[*corev1.Pod]
		calls, afterClose := 0, 0
		handlers := []Handler[*corev1.Pod]{
			{Updated: func(_, _ *corev1.Pod) { calls++; regs[0].Close() }}, // itself
			counting(&heard),
			{Updated: func(_, _ *corev1.Pod) { // another, and waits for that
				regs[3].Close()
				<-regs[3].Done()
			}},
			{Updated: func(_, _ *corev1.Pod) { afterClose++ }}, // the other may have been first, once,
			{Updated: func(_, _ *corev1.Pod) { runtime.Goexit() }},
			counting(&heard),
		}
		source := NewFakeSource(fullPod("one"))
		pods, joined, stop := aboardOf(t, source, handlers...)
		regs = joined
		if pods.crew.size() != 6 {
			t.Errorf("%d handlers aboard at first", pods.crew.size())
		}
		for range 3 {
			source.Modify(fullPod("one"))
			time.Sleep(time.Second)
		}
		for _, i := range []int{0, 3, 4} {
			<-regs[i].Done()
		}
		if calls != 1 || afterClose > 1 || heard.Load() != 2*4 || pods.crew.size() != 3 {
			t.Errorf("%d calls, others heard %d times, %d aboard", calls, heard.Load(), pods.crew.size())
		}
		regs[1].Close()
		<-regs[1].Done()
		stop()
		for _, r := range regs {
			<-r.Done()
		}
	})
}

func TestAnInformerEndsWhileAMemberIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard atomic.Int64
		source := NewFakeSource(fullPod("one"))
		stuck := Handler[*corev1.Pod]{Updated: func(_, _ *corev1.Pod) { time.Sleep(time.Hour) }}
		_, regs, stop := aboardOf(t, source, stuck, counting(&heard), stuck)
		source.Modify(fullPod("one"))
		time.Sleep(time.Millisecond / 2)
		began := time.Now()
		stop()
		if time.Since(began) < time.Hour-time.Second {
			t.Errorf("Run returned after %v, while a handler was being called", time.Since(began))
		}
		for _, r := range regs {
			<-r.Done()
		}
	})
}
