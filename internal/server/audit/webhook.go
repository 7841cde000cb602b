package audit

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// WebhookOptions say how events are sent to a webhook.
type WebhookOptions struct {
	// ConfigFile is a kubeconfig that names the webhook.
	ConfigFile string
	// Mode is batch (the default), blocking or blocking-strict.
	Mode  string
	Batch BatchOptions
	// InitialBackoff is how long to wait before the first retry: 10 s by default.
	InitialBackoff time.Duration
}

func (o WebhookOptions) open(log *slog.Logger) (*backend, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.ConfigFile)
	if err != nil {
		return nil, fmt.Errorf("audit webhook: %w", err)
	}
	config.Timeout = 30 * time.Second
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("audit webhook: %w", err)
	}
	b := &backend{name: "webhook", strict: o.Mode == BlockingStrict}
	b.sink = &webhook{url: config.Host, client: client, log: log, backoff: cmp.Or(o.InitialBackoff, 10*time.Second)}
	switch o.Mode {
	case Blocking, BlockingStrict:
		return b, nil
	case "", Batch:
	default:
		return nil, fmt.Errorf("the mode %q of the audit webhook is none of batch, blocking and blocking-strict", o.Mode)
	}
	o.Batch.BufferSize = cmp.Or(o.Batch.BufferSize, 10_000)
	o.Batch.MaxSize = cmp.Or(o.Batch.MaxSize, 400)
	o.Batch.MaxWait = cmp.Or(o.Batch.MaxWait, 30*time.Second)
	if o.Batch.QPS == 0 {
		o.Batch.Throttle, o.Batch.QPS, o.Batch.Burst = true, 10, 15
	}
	b.batch = newBatch(o.Batch)
	return b, nil
}

// webhook is a sink that posts lists of events.
type webhook struct {
	url     string
	client  *http.Client
	log     *slog.Logger
	backoff time.Duration
}

// tries is how often a list is sent, and growth by how much longer each wait is.
const (
	tries  = 5
	growth = 1.5
)

// write posts one list. What may work later is tried again.
func (w *webhook) write(ctx context.Context, all events) error {
	body := []byte(`{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[`)
	for one := range all.each {
		body = append(append(body, one...), ',')
	}
	body = append(body[:len(body)-1], "]}"...)
	wait := w.backoff
	for try := 1; ; try++ {
		again, err := w.post(ctx, body)
		if err == nil {
			return nil
		}
		if !again || try == tries {
			w.log.Warn("audit events cannot be sent", "events", len(all.ends), "error", err)
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
		wait = time.Duration(float64(wait) * growth)
	}
}

func (w *webhook) post(ctx context.Context, body []byte) (again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := w.client.Do(r)
	if err != nil {
		return true, err
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, 64<<10)
	if res.StatusCode/100 == 2 {
		return false, nil
	}
	return res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= http.StatusInternalServerError, fmt.Errorf("the webhook answers %s", res.Status)
}

func (w *webhook) close() error {
	w.client.CloseIdleConnections()
	return nil
}
