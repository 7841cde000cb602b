package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/clientgo"
	"github.com/millrace/millrace/informer/informertest"
)

func pod(namespace, name, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{NodeName: node}}
}

func TestAGeneratedFactoryAndListerWorkUnchanged(t *testing.T) {
	source := informertest.NewSource(pod("a", "one", "n1"), pod("b", "two", "n2"))
	synctest.Test(t, func(t *testing.T) {
		factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
		factory.InformerFor(&corev1.Pod{}, func(_ kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
			return clientgo.New(source, informer.Options[*corev1.Pod]{Resync: resync})
		})
		pods := factory.Core().V1().Pods()
		var heard []string
		reg, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
			AddFunc: func(o any, initial bool) {
				heard = append(heard, fmt.Sprint("added ", o.(*corev1.Pod).Name, " ", initial))
			},
			UpdateFunc: func(_, o any) { heard = append(heard, "updated "+o.(*corev1.Pod).Name) },
			DeleteFunc: func(o any) { heard = append(heard, "deleted "+o.(*corev1.Pod).Name) },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		factory.StartWithContext(ctx)
		if result := factory.WaitForCacheSyncWithContext(ctx); result.Err != nil {
			t.Fatal(result.Err)
		}
		if !cache.WaitForCacheSync(ctx.Done(), reg.HasSynced) {
			t.Fatal("the handler did not sync")
		}
		source.Modify(pod("a", "one", "n3"))
		synctest.Wait()
		source.Delete(pod("b", "two", ""))
		synctest.Wait()
		want := []string{"added one true", "added two true", "updated one", "deleted two"}
		if !slices.Equal(heard, want) {
			t.Errorf("heard %q", heard)
		}
		inA, err := pods.Lister().Pods("a").List(labels.Everything())
		if err != nil || len(inA) != 1 || inA[0].Spec.NodeName != "n3" {
			t.Errorf("the lister has %v, %v", inA, err)
		}
		if _, err := pods.Lister().Pods("b").Get("two"); err == nil {
			t.Error("the lister has what was deleted")
		}
		cancel()
		factory.Shutdown()
		if !pods.Informer().IsStopped() {
			t.Error("the informer is not stopped")
		}
	})
}

func TestIndexersTransformsAndErrorHandlersWork(t *testing.T) {
	source := informertest.NewSource(pod("a", "one", "n1"), pod("b", "two", "n1"), pod("b", "three", "n2"))
	source.Fail("watch", errors.New("connection refused"))
	synctest.Test(t, func(t *testing.T) {
		shared := clientgo.New(source, informer.Options[*corev1.Pod]{})
		failures := 0
		err := errors.Join(
			shared.SetTransform(func(o any) (any, error) {
				o.(*corev1.Pod).Annotations = map[string]string{"seen": "yes"}
				return o, nil
			}),
			shared.SetWatchErrorHandler(func(*cache.Reflector, error) { failures++ }),
			shared.AddIndexers(cache.Indexers{
				cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
				"node":               func(o any) ([]string, error) { return []string{o.(*corev1.Pod).Spec.NodeName}, nil },
			}))
		if err != nil {
			t.Fatal(err)
		}
		if err := shared.SetTransform(nil); !errors.Is(err, clientgo.ErrInUse) {
			t.Errorf("a late SetTransform: %v", err)
		}
		stop, ended := make(chan struct{}), make(chan struct{})
		go func() { shared.Run(stop); close(ended) }()
		<-shared.HasSyncedChecker().Done()
		indexer := shared.GetIndexer()
		keys, err := indexer.IndexKeys("node", "n1")
		if err != nil || !slices.Equal(keys, []string{"a/one", "b/two"}) {
			t.Errorf("on n1: %v, %v", keys, err)
		}
		inB, err := indexer.Index(cache.NamespaceIndex, pod("b", "any", ""))
		if err != nil || len(inB) != 2 || inB[0].(*corev1.Pod).Annotations["seen"] != "yes" {
			t.Errorf("in b: %v, %v", inB, err)
		}
		if got := indexer.ListIndexFuncValues(cache.NamespaceIndex); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("namespaces: %q", got)
		}
		if got := indexer.ListIndexFuncValues("node"); !slices.Equal(got, []string{"n1", "n2"}) {
			t.Errorf("nodes: %q", got)
		}
		if _, err := indexer.ByIndex("nonesuch", ""); err == nil {
			t.Error("an index that does not exist was found")
		}
		if err := indexer.Add(pod("a", "b", "")); !errors.Is(err, clientgo.ErrReadOnly) {
			t.Errorf("Add: %v", err)
		}
		if failures == 0 {
			t.Error("no failure was reported")
		}
		close(stop)
		<-ended
	})
}
