package clients_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/features"
	featuretesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/millrace/millrace"
)

func TestInformersFollowEveryChange(t *testing.T) {
	for _, streaming := range []bool{true, false} {
		for _, uncached := range [][]string{nil, {"configmaps"}} {
			for name, wire := range wires {
				t.Run(fmt.Sprintf("%s/watchlist=%v/uncached=%v", name, streaming, uncached), func(t *testing.T) {
					featuretesting.SetFeatureDuringTest(t, features.WatchListClient, streaming)
					c := start(t, millrace.Options{Uncached: uncached})
					config := c.Config()
					wire(config)
					k := clientset(t, config)
					maps := k.CoreV1().ConfigMaps("default")
					for i := range 40 {
						must(maps.Create(t.Context(), configMap(fmt.Sprint("c", i), nil), metav1.CreateOptions{}))(t)
					}
					factory := informers.NewSharedInformerFactoryWithOptions(k, 0, informers.WithNamespace("default"))
					lister := factory.Core().V1().ConfigMaps().Lister()
					informer := factory.Core().V1().ConfigMaps().Informer()
					ctx, cancel := context.WithCancel(t.Context())
					defer factory.Shutdown()
					defer cancel()
					factory.Start(ctx.Done())
					eventually(t, "synced", informer.HasSynced)
					if all := must(lister.List(labels.Everything()))(t); len(all) != 40 {
						t.Errorf("%d after the sync", len(all))
					}
					for i := range 20 {
						must(maps.Patch(t.Context(), fmt.Sprint("c", i), types.MergePatchType, []byte(`{"data":{"k":"w"}}`), metav1.PatchOptions{}))(t)
						if err := maps.Delete(t.Context(), fmt.Sprint("c", 39-i), metav1.DeleteOptions{}); err != nil {
							t.Fatal(err)
						}
					}
					want := must(maps.List(t.Context(), metav1.ListOptions{}))(t)
					eventually(t, "the same state", func() bool {
						all := must(lister.List(labels.Everything()))(t)
						for _, o := range want.Items {
							got, err := lister.ConfigMaps("default").Get(o.Name)
							if err != nil || got.ResourceVersion != o.ResourceVersion || got.Data["k"] != "w" {
								return false
							}
						}
						return len(all) == len(want.Items)
					})
				})
			}
		}
	}
}

func TestControllerRuntimeReadsFromItsCacheAndWritesThrough(t *testing.T) {
	for _, streaming := range []bool{true, false} {
		t.Run(fmt.Sprint("watchlist=", streaming), func(t *testing.T) {
			featuretesting.SetFeatureDuringTest(t, features.WatchListClient, streaming)
			c := start(t, millrace.Options{})
			cached := must(cache.New(c.Config(), cache.Options{Scheme: scheme.Scheme}))(t)
			direct := must(client.New(c.Config(), client.Options{Scheme: scheme.Scheme}))(t)
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			defer running.Wait()
			defer cancel()
			running.Go(func() {
				if err := cached.Start(ctx); err != nil {
					t.Error(err)
				}
			})
			if err := cached.IndexField(ctx, &corev1.ConfigMap{}, "data.k", func(o client.Object) []string { return []string{o.(*corev1.ConfigMap).Data["k"]} }); err != nil {
				t.Fatal(err)
			}
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", Labels: map[string]string{"l": "1"}}, Data: map[string]string{"k": "v"}}
			if err := direct.Create(ctx, object); err != nil {
				t.Fatal(err)
			}
			var list corev1.ConfigMapList
			eventually(t, "in the cache", func() bool {
				err := cached.List(ctx, &list, client.InNamespace("default"), client.MatchingFields{"data.k": "v"})
				return err == nil && len(list.Items) == 1
			})
			before := object.DeepCopy()
			object.Data["k"] = "w"
			if err := direct.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
				t.Fatal(err)
			}
			var got corev1.ConfigMap
			eventually(t, "changed in the cache", func() bool {
				return cached.Get(ctx, client.ObjectKeyFromObject(object), &got) == nil && got.Data["k"] == "w"
			})
			var partial metav1.PartialObjectMetadataList
			partial.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
			if err := cached.List(ctx, &partial, client.MatchingLabels{"l": "1"}); err != nil || len(partial.Items) != 1 {
				t.Errorf("%v %v", partial.Items, err)
			}
			p := pod("p")
			p.Namespace = "default"
			if err := direct.Create(ctx, p); err != nil {
				t.Fatal(err)
			}
			p.Status.Phase = corev1.PodRunning
			if err := direct.Status().Update(ctx, p); err != nil || p.Status.Phase != corev1.PodRunning {
				t.Errorf("%v %s", err, p.Status.Phase)
			}
			if err := direct.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace("default"), client.MatchingLabels{"l": "1"}); err != nil {
				t.Error(err)
			}
			eventually(t, "gone from the cache", func() bool {
				return client.IgnoreNotFound(cached.Get(ctx, client.ObjectKeyFromObject(object), &got)) == nil && !exists(ctx, cached, object)
			})
			var _ runtime.Object = object
		})
	}
}

func exists(ctx context.Context, r client.Reader, o client.Object) bool {
	var got corev1.ConfigMap
	return r.Get(ctx, client.ObjectKeyFromObject(o), &got) == nil
}
