package loop

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/reference"

	"github.com/millrace/millrace/internal/sleep"
)

// Recorder records Kubernetes events, which kubectl describe shows. It does not block. Events may be lost, so loops
// must not rely on them.
type Recorder interface {
	Eventf(object runtime.Object, eventType, reason, format string, args ...any)
}

// Events writes events to the API server. Equal events are counted in one object, similar ones are merged after a
// while, and a source with too many events about one object is limited: see correlator. The number of waiting events is
// bounded; further ones are dropped.
type Events struct {
	client typedcorev1.EventsGetter
	log    *slog.Logger
	rate   *rate.Limiter
	lanes  [lanes]lane // all events about one object use the same lane
}

// Limit lets events wait if more than perSecond of them are to be written in a second, after a burst. 0 means no limit.
// It must be called before Run.
func (e *Events) Limit(perSecond, burst int) {
	if perSecond > 0 {
		e.rate = rate.NewLimiter(rate.Limit(perSecond), max(burst, 1))
	}
}

const (
	// lanes is how many events are written at the same time. It is small because the loops' own writes come first. It
	// is not 1, because most CPU time would then go into switching between goroutines.
	lanes = 4
	// maxWaiting limits the events that wait in a lane. A burst of many thousand objects fills it for some seconds.
	maxWaiting = 5000
	// After each write a lane pauses for deference times as long as the write took, as long as the lane has room. The
	// loops' own writes are more urgent than events, and writes take longer when the server is busy.
	deference, maxDeference = 3, time.Second
)

// NewEvents returns a writer of events. A nil log discards.
func NewEvents(client typedcorev1.EventsGetter, log *slog.Logger) *Events {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	e := &Events{client: client, log: log, rate: rate.NewLimiter(rate.Inf, 0)}
	for i := range e.lanes {
		e.lanes[i].arrived = make(chan struct{}, 1)
	}
	return e
}

// lane returns the lane of an object.
func (e *Events) lane(object *corev1.ObjectReference) *lane {
	hash := fnv.New32a()
	_, _ = io.WriteString(hash, object.Namespace+"/"+object.Name) // cannot fail
	return &e.lanes[hash.Sum32()%lanes]
}

// For returns a recorder with this source.
func (e *Events) For(source corev1.EventSource) Recorder { return recorder{e, source} }

type recorder struct {
	events *Events
	source corev1.EventSource
}

func (r recorder) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	ref, err := reference.GetReference(scheme.Scheme, object)
	if err != nil {
		r.events.log.Error("event about an object that cannot be named", "reason", reason, "err", err)
		return
	}
	now := metav1.Now()
	event := &corev1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: ref.Namespace},
		InvolvedObject:      *ref,
		Type:                eventType,
		Reason:              reason,
		Message:             shorten(fmt.Sprintf(format, args...)),
		Source:              r.source,
		ReportingController: r.source.Component,
		ReportingInstance:   r.source.Host,
		FirstTimestamp:      now,
		LastTimestamp:       now,
		Count:               1,
	}
	if event.Namespace == "" {
		event.Namespace = metav1.NamespaceDefault
	}
	if !r.events.lane(ref).put(event) {
		r.events.log.Debug("event dropped because too many are waiting", "reason", reason, "object", ref.Name)
	}
}

// maxMessage is the length that the events API allows.
const maxMessage = 1024

func shorten(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "")
}

// flushTimeout is how long Run keeps writing after its context has ended.
const flushTimeout = time.Second

// Run writes events until ctx ends, and then the waiting ones as long as flushTimeout allows.
func (e *Events) Run(ctx context.Context) error {
	var writing sync.WaitGroup
	for i := range e.lanes {
		writing.Go(func() { e.writeAll(ctx, &e.lanes[i]) })
	}
	writing.Wait()
	return nil
}

func (e *Events) writeAll(ctx context.Context, lane *lane) {
	correlate := newCorrelator()
	for {
		select {
		case <-lane.arrived:
			event := lane.take()
			if event == nil {
				continue
			}
			if e.rate.Wait(ctx) != nil { // ctx has ended
				e.flush(context.WithoutCancel(ctx), correlate, lane, event)
				return
			}
			began := time.Now()
			e.write(ctx, correlate, event)
			if waiting := lane.len(); waiting > 0 && waiting < maxWaiting/2 {
				sleep.For(ctx, min(deference*time.Since(began), maxDeference))
			}
		case <-ctx.Done():
			e.flush(context.WithoutCancel(ctx), correlate, lane, nil)
			return
		}
	}
}

// flush writes an event, if it is not nil, and those that wait.
func (e *Events) flush(ctx context.Context, correlate *correlator, lane *lane, first *corev1.Event) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if first != nil && !e.write(ctx, correlate, first) {
		return
	}
	for ctx.Err() == nil {
		event := lane.take()
		if event == nil || !e.write(ctx, correlate, event) {
			return
		}
	}
}

// retryEvery has the delays between the attempts to write one event.
var retryEvery = []time.Duration{200 * time.Millisecond, time.Second, 5 * time.Second}

// write sends one event. It returns false if the server could not be reached.
func (e *Events) write(ctx context.Context, correlate *correlator, event *corev1.Event) bool {
	event, text := correlate.event(event)
	if event == nil {
		return true
	}
	for attempt := 0; ; attempt++ {
		err := e.send(ctx, event)
		var refused apierrors.APIStatus
		switch {
		case err == nil:
			correlate.written(text, event)
			return true
		case errors.As(err, &refused):
			e.log.DebugContext(ctx, "event refused", "reason", event.Reason, "err", err)
			return true
		case attempt == len(retryEvery) || ctx.Err() != nil:
			e.log.WarnContext(ctx, "event not written", "reason", event.Reason, "err", err)
			return false
		}
		sleep.For(ctx, retryEvery[attempt])
	}
}

// send increases the count of the event if the server has it, and creates it otherwise.
func (e *Events) send(ctx context.Context, event *corev1.Event) error {
	events := e.client.Events(event.Namespace)
	if event.Count > 1 {
		patch, err := countPatch(event)
		if err != nil {
			return err
		}
		_, err = events.Patch(ctx, event.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) { // it may have expired
			return err
		}
	}
	_, err := events.Create(ctx, event, metav1.CreateOptions{})
	return err
}
