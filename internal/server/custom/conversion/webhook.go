package conversion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
)

const (
	// callTimeout is Kubernetes' own; the server is told of it.
	callTimeout = 30 * time.Second
	// A call carries at most so many objects, and at most so many bytes of them unless one alone is longer: what comes
	// back may be longer, and answers are bounded.
	mostObjects, mostBytes = 500, 1 << 20
	// mostCalls is how many calls run at a time for one version of a definition.
	mostCalls = 8
	// mostRefused is after how many objects that the webhook refuses one by one it is believed that it refuses the
	// others.
	mostRefused = 8
)

// Options say who converts, and what.
type Options struct {
	Group string
	// Reviews are the versions of ConversionReview that the webhook understands, the best first.
	Reviews []string
	// Post calls the webhook, and ends with its context.
	Post func(ctx context.Context, timeout time.Duration, body []byte) ([]byte, error)
}

// Webhook converts objects by calling a webhook. It can be used by many goroutines.
type Webhook struct {
	o     Options
	calls chan struct{}
}

// New makes a converter. It calls nobody.
func New(o Options) *Webhook { return &Webhook{o: o, calls: make(chan struct{}, mostCalls)} }

// Convert converts objects. Those that could not be converted are nil, and the error is that of one of them.
func (w *Webhook) Convert(ctx context.Context, objects []*unstructured.Unstructured, toVersion string) ([]*unstructured.Unstructured, error) {
	if len(objects) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	f := &flight{webhook: w, to: w.o.Group + "/" + toVersion, objects: objects, texts: make([]json.RawMessage, len(objects)), made: make([]*unstructured.Unstructured, len(objects))}
	for i, o := range objects {
		text, err := json.Marshal(o.Object)
		if err != nil {
			return nil, apierrors.NewInternalError(fmt.Errorf("encode an object to be converted: %w", err))
		}
		f.texts[i] = text
	}
	var running sync.WaitGroup
	for _, part := range f.parts() {
		if !w.enter(ctx) {
			f.fail(part.from, context.Cause(ctx))
			break
		}
		running.Go(func() {
			defer func() { <-w.calls }()
			f.convert(ctx, part)
		})
	}
	running.Wait()
	return f.made, f.err
}

// enter waits for a place among the calls.
func (w *Webhook) enter(ctx context.Context) bool {
	select {
	case w.calls <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// flight is what is converted for one caller.
type flight struct {
	webhook *Webhook
	to      string
	objects []*unstructured.Unstructured
	texts   []json.RawMessage
	made    []*unstructured.Unstructured
	refused atomic.Int32

	mu  sync.Mutex // guards err
	err error
}

// part is the objects of a call.
type part struct{ from, to int }

// parts divides the objects among calls.
func (f *flight) parts() []part {
	var out []part
	size := 0
	for i, text := range f.texts {
		size += len(text)
		if last := len(out) - 1; last >= 0 && size <= mostBytes && i-out[last].from < mostObjects {
			out[last].to = i + 1
			continue
		}
		out, size = append(out, part{i, i + 1}), len(text)
	}
	return out
}

// convert converts the objects of one call, and of others if the webhook will not have them all.
func (f *flight) convert(ctx context.Context, p part) {
	answer, err := f.call(ctx, p)
	var refused errRefused
	if errors.As(err, &refused) {
		f.divide(ctx, p, err)
		return
	}
	if err != nil {
		f.fail(p.from, err)
		return
	}
	for i, text := range answer {
		at := p.from + i
		made, err := accept(text, f.objects[at], f.to)
		if err != nil {
			f.fail(at, err)
			continue
		}
		f.made[at] = made
	}
}

// divide looks for the objects that a webhook refuses.
func (f *flight) divide(ctx context.Context, p part, why error) {
	if f.refused.Load() >= mostRefused {
		f.fail(p.from, why)
		return
	}
	if p.to-p.from == 1 {
		f.refused.Add(1)
		f.fail(p.from, why)
		return
	}
	middle := (p.from + p.to) / 2
	f.convert(ctx, part{p.from, middle})
	f.convert(ctx, part{middle, p.to})
}

// call is one call of the webhook.
func (f *flight) call(ctx context.Context, p part) ([]json.RawMessage, error) {
	version, err := reviewVersion(f.webhook.o.Reviews)
	if err != nil {
		return nil, err
	}
	uid := uuid.NewUUID()
	body, err := ask(version, uid, f.to, slices.Clip(f.texts[p.from:p.to]))
	if err != nil {
		return nil, err
	}
	text, err := f.webhook.o.Post(ctx, callTimeout, body)
	if err != nil {
		return nil, err
	}
	answer, err := answered(version, uid, text)
	if err == nil && len(answer) != p.to-p.from {
		return nil, errCount{len(answer), p.to - p.from}
	}
	return answer, err
}

// errCount is an answer with too few or too many objects.
type errCount struct{ got, want int }

func (e errCount) Error() string {
	return fmt.Sprintf("returned %d objects, expected %d", e.got, e.want)
}

// fail notes why an object was not converted.
func (f *flight) fail(at int, why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = failure(f.objects[at].GroupVersionKind(), why)
	}
}

// failure is what clients are told.
func failure(of schema.GroupVersionKind, why error) error {
	text := fmt.Sprintf("conversion webhook for %v failed: %v", of, why)
	var bad errInvalid
	var count errCount
	switch {
	case errors.As(why, &bad):
		text = fmt.Sprintf("conversion webhook for %v returned invalid %v", of, why)
	case errors.As(why, &count):
		text = fmt.Sprintf("conversion webhook for %v %v", of, why)
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: text}}
}
