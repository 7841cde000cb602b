package informer_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/informertest"
)

// maxDelay is how long a handler may delay the others.
const maxDelay = 2 * time.Millisecond

// togetherOf returns an informer with handlers that have all caught up, and a function that stops it.
func togetherOf(t *testing.T, source *informertest.Source[*corev1.Pod], handlers ...informer.Handler[*corev1.Pod]) (*informer.Shared[*corev1.Pod], []*informer.Registration[*corev1.Pod], func()) {
	t.Helper()
	pods := informer.New[*corev1.Pod](source, informer.Options[*corev1.Pod]{})
	var regs []*informer.Registration[*corev1.Pod]
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

func counting(n *atomic.Int64) informer.Handler[*corev1.Pod] {
	return informer.Handler[*corev1.Pod]{Changed: func(informer.Key) { n.Add(1) }}
}

func TestHandlersThatKeepUpShareAGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard atomic.Int64
		var handlers []informer.Handler[*corev1.Pod]
		for range 50 {
			handlers = append(handlers, counting(&heard))
		}
		source := informertest.NewSource(fullPod("one"))
		before := runtime.NumGoroutine()
		pods, _, stop := togetherOf(t, source, handlers...)
		for range 10 {
			source.Modify(fullPod("one"))
			synctest.Wait()
		}
		if heard.Load() != 50*11 || informer.HandlersTogether(pods) != 50 {
			t.Errorf("heard %d times with %d handlers together", heard.Load(), informer.HandlersTogether(pods))
		}
		if now := runtime.NumGoroutine(); now > before+5 {
			t.Errorf("%d goroutines, %d before", now, before)
		}
		stop()
	})
}

func TestAHandlerThatDelaysTheOthersIsCalledAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard atomic.Int64
		block, release := false, make(chan struct{})
		var told []string
		stuck := informer.Handler[*corev1.Pod]{Updated: func(_, p *corev1.Pod) {
			told = append(told, p.Labels["app"])
			if block {
				<-release
			}
		}}
		source := informertest.NewSource(fullPod("one"))
		pods, _, stop := togetherOf(t, source, counting(&heard), stuck, counting(&heard))
		block = true
		for i := range 5 {
			p := fullPod("one")
			p.Labels["app"] = fmt.Sprint(i)
			source.Modify(p)
			time.Sleep(2 * maxDelay)
			synctest.Wait()
			if want := int64(2 + 2*(i+1)); heard.Load() != want {
				t.Errorf("after change %d the others have heard %d times, want %d", i, heard.Load(), want)
			}
		}
		if informer.HandlersTogether(pods) != 2 {
			t.Errorf("%d handlers together", informer.HandlersTogether(pods))
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
		if informer.HandlersTogether(pods) != 3 {
			t.Errorf("%d handlers together after it caught up", informer.HandlersTogether(pods))
		}
		stop()
	})
}

func TestAHandlerThatIsSlowEachTimeDelaysOthersLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late, sent atomic.Int64 // in nanoseconds
		now := func() int64 { return time.Now().UnixNano() }
		slow := informer.Handler[*corev1.Pod]{Changed: func(informer.Key) { time.Sleep(time.Millisecond) }}
		quick := informer.Handler[*corev1.Pod]{Changed: func(informer.Key) { late.Add(now() - sent.Load()) }}
		source := informertest.NewSource(fullPod("one"))
		_, _, stop := togetherOf(t, source, slow, quick)
		late.Store(0)
		for range 1000 {
			sent.Store(now())
			source.Modify(fullPod("one"))
			time.Sleep(10 * time.Millisecond)
		}
		if late := time.Duration(late.Load()); late > 20*maxDelay {
			t.Errorf("a handler was late by %v altogether", late)
		}
		stop()
	})
}

func TestHandlersLeaveInEveryWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard atomic.Int64
		var regs []*informer.Registration[*corev1.Pod]
		calls, afterClose := 0, 0
		handlers := []informer.Handler[*corev1.Pod]{
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
		source := informertest.NewSource(fullPod("one"))
		pods, joined, stop := togetherOf(t, source, handlers...)
		regs = joined
		if informer.HandlersTogether(pods) != 6 {
			t.Errorf("%d handlers together at first", informer.HandlersTogether(pods))
		}
		for range 3 {
			source.Modify(fullPod("one"))
			time.Sleep(time.Second)
		}
		for _, i := range []int{0, 3, 4} {
			<-regs[i].Done()
		}
		if calls != 1 || afterClose > 1 || heard.Load() != 2*4 || informer.HandlersTogether(pods) != 3 {
			t.Errorf("%d calls, others heard %d times, %d together", calls, heard.Load(), informer.HandlersTogether(pods))
		}
		regs[1].Close()
		<-regs[1].Done()
		stop()
		for _, r := range regs {
			<-r.Done()
		}
	})
}

func TestAnInformerEndsWhileAHandlerIsCalledAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard atomic.Int64
		source := informertest.NewSource(fullPod("one"))
		stuck := informer.Handler[*corev1.Pod]{Updated: func(_, _ *corev1.Pod) { time.Sleep(time.Hour) }}
		_, regs, stop := togetherOf(t, source, stuck, counting(&heard), stuck)
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
