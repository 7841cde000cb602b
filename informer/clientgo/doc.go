// Package clientgo provides this project's informers behind client-go's interfaces, so that generated listers and
// controllers that were written for client-go's informers need not change:
//
//	factory.InformerFor(&corev1.Pod{}, func(c kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
//		return clientgo.New(informer.For(c.CoreV1().Pods("")), informer.Options[*corev1.Pod]{Resync: resync})
//	})
//
// After this line the informer and the lister of factory.Core().V1().Pods() need less memory.
//
// There are four differences. The store cannot be written to (ErrReadOnly). Changes of an object that a handler has not
// received yet are merged. Where objects are kept encoded, two reads of one object may return different pointers. There
// is no *cache.Reflector, so a watch error handler receives an empty one.
package clientgo
