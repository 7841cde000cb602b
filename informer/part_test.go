package informer_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/informertest"
	"github.com/millrace/millrace/watch"
)

// scopedPods is a typed client for one namespace of a fake source, as client-go generates them.
type scopedPods struct {
	*informertest.Source[*corev1.Pod]
	namespace string
	refused   bool
}

func (c *scopedPods) Get(context.Context, string, metav1.GetOptions) (*corev1.Pod, error) {
	return nil, errors.ErrUnsupported
}

func (c *scopedPods) scope(options *metav1.ListOptions) error {
	if c.refused {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("not yours"))
	}
	options.FieldSelector = "metadata.namespace=" + c.namespace
	return nil
}

func (c *scopedPods) List(ctx context.Context, options metav1.ListOptions) (*corev1.PodList, error) {
	if err := c.scope(&options); err != nil {
		return nil, err
	}
	items, meta, err := c.Source.List(ctx, options)
	list := &corev1.PodList{ListMeta: meta}
	for _, item := range items {
		list.Items = append(list.Items, *item)
	}
	return list, err
}

func (c *scopedPods) Watch(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
	if err := c.scope(&options); err != nil {
		return nil, err
	}
	stream, err := c.Source.Watch(ctx, options)
	if err != nil {
		return nil, err
	}
	return watch.ToAPI(stream), nil
}

func clientFor(source *informertest.Source[*corev1.Pod], refused string) func(string) *scopedPods {
	return func(namespace string) *scopedPods {
		return &scopedPods{Source: source, namespace: namespace, refused: namespace == refused}
	}
}

func TestSeveralNamespacesShareOneCache(t *testing.T) {
	source := informertest.NewSource(pod("blue", "one"), pod("green", "two"), pod("red", "three"))
	pods := informer.ForNamespaces(clientFor(source, ""), "green", "blue", "green")
	withPods(t, pods, informer.Options[*corev1.Pod]{}, func(t *testing.T, pods podInformer) {
		mustSync(t, pods)
		var heard []string
		pods.Handle(informer.Handler[*corev1.Pod]{
			Added:   func(p *corev1.Pod, initial bool) { heard = append(heard, fmt.Sprint("added ", p.Name, initial)) },
			Deleted: func(p *corev1.Pod, _ bool) { heard = append(heard, "deleted "+p.Name) },
		})
		synctest.Wait()
		source.Add(pod("red", "four"))
		source.Add(pod("green", "five"))
		synctest.Wait()
		source.Delete(pod("blue", "one"))
		source.Compact()
		source.EndWatches(errors.New("connection reset"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if pods.Len() != 2 {
			t.Errorf("%d objects", pods.Len())
		}
		expect(t, heard, "added onetrue", "added twotrue", "added fivefalse", "deleted one")
	})
}

func TestAWriteInOneNamespaceNeedNotWaitForTheOthers(t *testing.T) {
	source := informertest.NewSource(pod("blue", "one"), pod("green", "two"))
	pods := informer.ForNamespaces(clientFor(source, ""), "green", "blue")
	withPods(t, pods, informer.Options[*corev1.Pod]{}, func(t *testing.T, pods podInformer) {
		mustSync(t, pods)
		began := time.Now()
		written := source.Modify(pod("blue", "one"))
		if err := pods.WaitFor(t.Context(), written.ResourceVersion); err != nil || time.Since(began) > 0 {
			t.Errorf("WaitFor: %v after %v", err, time.Since(began))
		}
		if got, _ := pods.Get("blue", "one"); got.ResourceVersion != written.ResourceVersion {
			t.Errorf("read %s, wrote %s", got.ResourceVersion, written.ResourceVersion)
		}
		reached, _ := strconv.Atoi(pods.LastResourceVersion())
		if next, _ := strconv.Atoi(written.ResourceVersion); reached >= next {
			t.Errorf("the whole is said to be at %d, while the green pods may be behind", reached)
		}
		elsewhere := source.Add(pod("red", "three"))
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := pods.WaitFor(short, elsewhere.ResourceVersion); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("WaitFor a version that nobody has seen: %v", err)
		}
		source.SendBookmarks()
		if err := pods.WaitFor(t.Context(), elsewhere.ResourceVersion); err != nil {
			t.Error(err)
		}
	})
}

func TestANamespaceThatCannotBeReadIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := informertest.NewSource(pod("blue", "one"))
		pods := informer.New(informer.ForNamespaces(clientFor(source, "green"), "blue", "green"), informer.Options[*corev1.Pod]{Name: "pods"})
		start(t, pods)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := pods.Synced(ctx)
		if err == nil || !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "namespace green") {
			t.Errorf("Synced: %v", err)
		}
	})
}
