// Package clientgo puts an informer of this project behind client-go's interfaces, so that generated listers and
// controllers that were written for client-go's informers need not change:
//
//	factory.InformerFor(&corev1.Pod{}, func(c kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
//		return clientgo.New(informer.For(c.CoreV1().Pods("")), informer.Options[*corev1.Pod]{Resync: resync})
//	})
//
// After this line factory.Core().V1().Pods() has an informer and a lister that need less memory.
//
// What is different: the store cannot be written to (ErrReadOnly); changes that a handler has not come round to are
// merged; and, where objects are kept encoded, two reads of one object may return different pointers. A watch error
// handler is given an empty *cache.Reflector, since there is none.
package clientgo
