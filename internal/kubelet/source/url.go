package source

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// URLOptions configure a URL.
type URLOptions struct {
	URL    string
	Header http.Header
	Node   string
	// Every is how often it is read: 20 s by default.
	Every  time.Duration
	Client *http.Client
	Logger *slog.Logger
}

// URL polls a manifest over HTTP. It is a loop.Runner.
type URL struct {
	URLOptions
	push func([]*corev1.Pod)
	last string
}

// largest is the maximum size of a manifest.
const largest = 10 << 20

// NewURL returns a source that passes its pods to push.
func NewURL(o URLOptions, push func([]*corev1.Pod)) *URL {
	o.Every = cmp.Or(o.Every, 20*time.Second)
	if o.Client == nil {
		o.Client = &http.Client{Timeout: 10 * time.Second}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &URL{URLOptions: o, push: push}
}

// Run polls until ctx ends.
func (u *URL) Run(ctx context.Context) error {
	tick := time.NewTicker(u.Every)
	defer tick.Stop()
	for {
		if err := u.ask(ctx); err != nil && ctx.Err() == nil {
			u.Logger.Error("manifest cannot be read", "url", u.URL, "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (u *URL) ask(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.URLOptions.URL, nil)
	if err != nil {
		return err
	}
	if u.Header != nil {
		request.Header = u.Header.Clone()
	}
	answer, err := u.Client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, largest))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer is %s", answer.Status)
	}
	if len(text) == 0 {
		return fmt.Errorf("the answer is empty")
	}
	if string(text) == u.last {
		return nil
	}
	pods, err := decode(text)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if err := adopt(pod, HTTP, u.URLOptions.URL, u.Node, time.Now()); err != nil {
			return fmt.Errorf("pod %s: %w", pod.Name, err)
		}
	}
	u.last = string(text)
	u.push(pods)
	return nil
}
