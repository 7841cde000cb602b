package page_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace"
)

func configMap(name string, change ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Data: map[string]string{"colour": "green"}}
	for _, do := range change {
		do(c)
	}
	return c
}

// small is a cluster without loops, with a past.
func small(t *testing.T) millrace.Options {
	return millrace.Options{
		Data: t.TempDir(), Controllers: []string{}, NoScheduler: true, History: millrace.HistoryOptions{Age: time.Hour, Bytes: 1 << 30},
	}
}

func TestALinkLetsInOnceAndLeavesTheAddress(t *testing.T) {
	c := start(t, small(t))
	chromium := browser(t)
	b := open(t, chromium)
	once := link(t, c, "")
	b.visit(once)
	b.shows("#side", "configmaps")
	code := once[strings.Index(once, "#")+1:]
	if address := eval[string](b, "location.href"); strings.Contains(address, code) {
		t.Errorf("the address still has the code: %s", address)
	}
	if seen := eval[string](b, "document.cookie"); seen != "" {
		t.Errorf("scripts see the cookie %q", seen)
	}
	other := open(t, chromium)
	eval[any](b, "localStorage.clear()")
	other.visit(once)
	other.shows(".note", "lets nobody in any more")
	// Another link in one tab lets both in.
	b.visit(link(t, c, "")) // the same page: only the part behind # is another
	b.shows("#who", "admin")
	other.shows("#who", "admin")
	b.shows("#side", "configmaps")
	eval[any](b, "document.querySelector('#who button').click()")
	b.shows(".note", "You have left")
}

func TestATableIsLiveAndFindsByTyping(t *testing.T) {
	c := start(t, small(t))
	k := clientset(t, c)
	ctx := t.Context()
	for _, name := range []string{"apple", "banana", "cherry"} {
		if _, err := k.CoreV1().ConfigMaps("default").Create(ctx, configMap(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b := open(t, browser(t))
	b.visit(link(t, c, ""))
	b.shows("#side", "configmaps")
	b.at("#/list/core/v1/configmaps")
	b.shows(".line", "banana")
	if _, err := k.CoreV1().ConfigMaps("default").Create(ctx, configMap("damson"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.shows(".line", "damson")
	if err := k.CoreV1().ConfigMaps("default").Delete(ctx, "apple", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.sees("![...document.querySelectorAll('.line')].some(e => e.innerText.includes('apple'))")
	b.find()
	b.types("ns:default an")
	b.sees("document.querySelectorAll('.line').length === 1")
	b.shows(".count", "1 of")
	if address := eval[string](b, "location.hash"); !strings.Contains(address, "q=ns%3Adefault+an") {
		t.Errorf("the address does not keep the query: %s", address)
	}
	b.types(kb.Enter)
	b.types(kb.Enter)
	b.shows(".objecthead", "banana")
	patch := []byte(`{"data":{"colour":"yellow"}}`)
	b.at("#/object/core/v1/configmaps/default/banana?tab=YAML")
	b.shows(".yaml", "colour: green")
	if _, err := k.CoreV1().ConfigMaps("default").Patch(ctx, "banana", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "painter"}); err != nil {
		t.Fatal(err)
	}
	b.shows(".yaml", "colour: yellow")
	eval[any](b, `document.querySelector('.y[data-path="data.colour"]').click()`)
	b.shows(".setter", "painter")
}

func TestThePastIsShownAndCompared(t *testing.T) {
	c := start(t, small(t))
	k := clientset(t, c)
	maps := k.CoreV1().ConfigMaps("default")
	made, err := maps.Create(t.Context(), configMap("paint"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, colour := range []string{"red", "blue"} {
		patch := fmt.Appendf(nil, `{"data":{"colour":%q}}`, colour)
		if _, err := maps.Patch(t.Context(), "paint", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b := open(t, browser(t))
	b.visit(link(t, c, ""))
	b.shows("#side", "configmaps")
	b.at("#/object/core/v1/configmaps/default/paint?tab=History")
	b.shows(".version", "red → blue")
	b.shows(".version", "green → red")
	b.shows(".version .person", "admin")
	eval[any](b, "document.querySelectorAll('.version input').forEach((e, i, all) => { if (i === 0 || i === all.length - 1) e.click(); })")
	b.shows(".compared", "green")
	b.shows(".compared", "blue")
	b.at("#/object/core/v1/configmaps/default/paint?tab=YAML&at=" + made.ResourceVersion)
	b.shows(".yaml", "colour: green")
	b.sees("document.body.classList.contains('past')")
	b.types("n")
	b.shows(".yaml", "colour: blue")
	b.sees("!document.body.classList.contains('past')")
	// The slider goes to a moment before anything was there.
	b.at("#/list/core/v1/configmaps")
	b.shows(".line", "paint")
	eval[any](b, "(() => { const s = document.querySelector('#time input'); s.value = 1; s.dispatchEvent(new Event('input')); s.dispatchEvent(new Event('change')); })()")
	b.sees("document.body.classList.contains('past')")
	b.shows("#view", "The history does not reach back so far")
	eval[any](b, "document.querySelector('#time button:last-child').click()")
	b.shows(".line", "paint")
}

// attack is text that would do something if anybody read it as HTML or as a script.
const attack = `<img src=x onerror="window.owned=1"><script>window.owned=1</script><svg onload=window.owned=1>"'javascript:window.owned=1`

func TestNothingOfAClusterIsReadAsHTML(t *testing.T) {
	c := start(t, small(t))
	k := clientset(t, c)
	evil := configMap("evil", func(c *corev1.ConfigMap) {
		c.Annotations = map[string]string{"example.com/a": attack}
		c.Labels = map[string]string{"l": "x"}
		c.Data = map[string]string{"k": attack, "lines": attack + "\n" + attack}
	})
	made, err := k.CoreV1().ConfigMaps("default").Create(t.Context(), evil, metav1.CreateOptions{FieldManager: attack[:100]})
	if err != nil {
		t.Fatal(err)
	}
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "evil.1", Namespace: "default"}, Reason: attack[:60], Message: attack, Type: "Normal", LastTimestamp: metav1.Now(),
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Name: "evil", Namespace: "default", UID: made.UID},
	}
	if _, err := k.CoreV1().Events("default").Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.CoreV1().ConfigMaps("default").Patch(t.Context(), "evil", types.MergePatchType, []byte(`{"data":{"k":"<b>bold"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	b := open(t, browser(t))
	b.visit(link(t, c, "<b>mallory</b>", "system:masters"))
	b.shows("#who", "<b>mallory</b>")
	b.shows(".events", "window.owned=1")
	b.at("#/list/core/v1/events")
	b.shows(".line", "window.owned")
	b.at("#/object/core/v1/configmaps/default/evil")
	b.shows(".card", "window.owned=1")
	for tab, text := range map[string]string{"YAML": "window.owned", "Events": "window.owned", "History": "<b>bold"} {
		b.at("#/object/core/v1/configmaps/default/evil?tab=" + tab)
		b.shows(".objectbody", text)
	}
	b.at("#/list/core/v1/configmaps?q=" + "%3Cimg%20src%3Dx%20onerror%3Dwindow.owned%3D1%3E")
	b.sees("document.querySelector('.tools input')?.value.includes('<img')")
	b.at("#/object/core/v1/configmaps/default/%3Cimg%20src%3Dx%20onerror%3Dwindow.owned%3D1%3E")
	b.shows("#view", "onerror")
	if eval[bool](b, "'owned' in window || document.querySelectorAll('main img, main script, main b b, #who b b').length > 0") {
		t.Error("something of the cluster became a part of the page")
	}
}

func TestSomebodySeesOnlyWhatTheyMay(t *testing.T) {
	c := start(t, small(t))
	b := open(t, browser(t))
	b.visit(link(t, c, "alice"))
	b.shows("#who", "alice")
	b.shows(".home", "You may not see this")
	b.at("#/list/core/v1/secrets")
	b.shows(".note", "You may not see this")
	b.shows(".note", `User "alice" cannot list resource "secrets"`)
}

func TestAHundredThousandRowsAreFoundAndScrolled(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes many objects")
	}
	const many = 100_000
	c := start(t, millrace.Options{Controllers: []string{}, NoScheduler: true})
	fillWith(t, c, many)
	b := open(t, browser(t))
	b.visit(link(t, c, ""))
	b.shows("#side", "configmaps")
	began := time.Now()
	b.at("#/list/core/v1/configmaps")
	b.shows(".line", "many-")
	first := time.Since(began)
	b.sees(fmt.Sprintf("document.querySelector('.count').innerText.replace(/\\D/g, '') >= %d && !document.querySelector('.count').innerText.includes('…')", many))
	t.Logf("the first rows after %v, all %d after %v", first.Round(time.Millisecond), many, time.Since(began).Round(time.Millisecond))
	if n := eval[int](b, "document.querySelectorAll('.line').length"); n > 200 {
		t.Errorf("%d rows are drawn", n)
	}
	b.types("G")
	b.shows(".line", fmt.Sprintf("many-%06d", many-1))
	b.find()
	b.types("many-054321")
	b.sees("document.querySelectorAll('.line').length === 1")
	// A change among all of them is seen.
	k := clientset(t, c)
	if _, err := k.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("many-054321-more"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.sees("document.querySelectorAll('.line').length === 2")
}

func TestAServerThatComesBackIsFoundAgain(t *testing.T) {
	o := small(t)
	o.Listen = "127.0.0.1:0"
	c := start(t, o)
	if _, err := clientset(t, c).CoreV1().ConfigMaps("default").Create(t.Context(), configMap("paint"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b := open(t, browser(t))
	first := link(t, c, "")
	b.visit(first)
	b.shows("#side", "configmaps")
	b.at("#/list/core/v1/configmaps")
	b.shows(".line", "paint")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	b.shows("#state", "trying again")
	b.shows(".line", "paint") // the last state stays
	// A server that was started again knows no session, and the page says what to do.
	o.Listen = strings.TrimPrefix(c.URL(), "https://")
	again := start(t, o)
	b.shows(".note", "millrace page")
	next := link(t, again, "")
	if first[:strings.Index(first, "#")] != next[:strings.Index(next, "#")] {
		t.Skipf("another process has taken the port: %s, %s", first, next)
	}
	b.visit(next)
	b.shows("#who", "admin")
}

// fillWith makes many objects.
func fillWith(t *testing.T, c *millrace.Cluster, many int) {
	t.Helper()
	k := clientset(t, c)
	const workers = 32
	failed := make(chan error, workers)
	for w := range workers {
		go func() {
			for i := w; i < many; i += workers {
				one := configMap(fmt.Sprintf("many-%06d", i), func(c *corev1.ConfigMap) { c.Labels = map[string]string{"of": fmt.Sprint(i % 100)} })
				if _, err := k.CoreV1().ConfigMaps("default").Create(context.Background(), one, metav1.CreateOptions{}); err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	for range workers {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
}
