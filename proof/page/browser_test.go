package page_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace"
)

// programs are the names of Chromium in Debian and elsewhere.
var programs = []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"}

// browser starts a browser, or skips the test.
func browser(t *testing.T) context.Context {
	t.Helper()
	path := ""
	for _, name := range programs {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("no browser: install chromium-headless-shell")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1280, 800),
		chromedp.Flag("force-color-profile", "srgb"), chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(time.Minute))
	started, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(started)
	t.Cleanup(end)
	if _, err := chromedp.Run(ctx, chromedp.Location()); err != nil { // tabs are made in this browser from now on
		t.Fatal(err)
	}
	return ctx
}

// tab is a page in a browser.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu  sync.Mutex
	bad []string // what the browser complained about
}

// open makes a tab that reports what violates the policy of the page, and errors of its scripts.
func open(t *testing.T, browser context.Context) *tab {
	t.Helper()
	b := &tab{t: t}
	ctx, end := chromedp.NewContext(browser, chromedp.WithListener(b.heard))
	t.Cleanup(end)
	b.ctx = ctx
	if _, err := chromedp.Run(ctx, chromedp.Location()); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, audits.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.bad) > 0 {
			t.Errorf("the browser complains:\n%s", strings.Join(b.bad, "\n"))
		}
	})
	return b
}

// heard takes what the browser says.
func (b *tab) heard(event any) {
	bad := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		bad = e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			bad += " " + e.ExceptionDetails.Exception.Description
		}
	case *audits.EventIssueAdded:
		if d := e.Issue.Details.ContentSecurityPolicyIssueDetails; d != nil {
			bad = fmt.Sprintf("content security policy: %s %s", d.ViolatedDirective, d.BlockedURL)
		}
	}
	if bad != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.bad = append(b.bad, bad)
	}
}

// do runs an action in a tab.
func do[T any](b *tab, what string, a chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		b.t.Fatalf("%s: %v\nthe page shows:\n%s", what, err, b.text("#view"))
	}
	return v
}

// visit opens an address.
func (b *tab) visit(url string) {
	b.t.Helper()
	do(b, "visit", chromedp.Navigate(url))
}

// at goes to another place in the page.
func (b *tab) at(place string) {
	b.t.Helper()
	eval[any](b, fmt.Sprintf("location.hash = %q", place))
}

// eval evaluates a script.
func eval[T any](b *tab, script string) T {
	b.t.Helper()
	return do(b, script, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
}

// text returns the text of an element.
func (b *tab) text(selector string) string {
	ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector)))
	if err != nil {
		return err.Error()
	}
	return text
}

// sees waits until a condition of the page is true.
func (b *tab) sees(condition string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 40*time.Second)
	defer cancel()
	poll := chromedp.Poll[any](condition, chromedp.WithPollingInterval(20*time.Millisecond), chromedp.WithPollingTimeout(35*time.Second))
	if _, err := chromedp.Run(ctx, poll); err != nil {
		b.t.Fatalf("%s: %v; the page shows:\n%s", condition, err, b.text("#view")+b.text("#state"))
	}
}

// shows waits until an element has a text.
func (b *tab) shows(selector, text string) {
	b.t.Helper()
	b.sees(fmt.Sprintf("[...document.querySelectorAll(%q)].some(e => e.innerText.includes(%q))", selector, text))
}

// types presses keys.
func (b *tab) types(keys string) {
	b.t.Helper()
	do(b, "type", chromedp.KeyEvent(keys))
}

// find goes to where one types what to find, as the key "/" does. (To press it here would also write it.)
func (b *tab) find() {
	b.t.Helper()
	eval[any](b, "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: '/', bubbles: true}))")
	b.sees("document.activeElement?.type === 'search'")
}

// picture takes a picture of the page.
func (b *tab) picture(width, height int64, scheme string) []byte {
	b.t.Helper()
	do(b, "size", chromedp.EmulateViewport(width, height))
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, media); err != nil {
		b.t.Fatal(err)
	}
	eval[any](b, "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 150))))")
	return do(b, "picture", chromedp.CaptureScreenshot())
}

// start starts a cluster with a page.
func start(t *testing.T, o millrace.Options) *millrace.Cluster {
	t.Helper()
	o.Page = true
	c, err := millrace.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func link(t *testing.T, c *millrace.Cluster, user string, groups ...string) string {
	t.Helper()
	l, err := c.PageLink(user, groups...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func clientset(t *testing.T, c *millrace.Cluster) *kubernetes.Clientset {
	t.Helper()
	k, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return k
}
