package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/protobuf"
	"github.com/millrace/millrace/watch"
)

// Source lists and watches, as an informer's source does.
type Source[T any] interface {
	List(ctx context.Context, options metav1.ListOptions) ([]T, metav1.ListMeta, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Stream[T], error)
}

var errNotProtobuf = errors.New("the server does not answer in protobuf")

// source lists and watches with a typed client's connection, and keeps the bytes of the objects instead of decoding
// them.
type source[T typed] struct {
	client    rest.Interface
	namespace string
	resource  string
	fallback  *encoder[T]
	reader    objectReader
}

// Over returns a source of encoded objects that uses a typed client's connection. If the server does not answer in
// protobuf, the objects of the fallback source are encoded.
func Over[T typed](client rest.Interface, namespace, resource string, fallback Source[T], dropManagedFields bool) Source[*Object] {
	return &source[T]{
		client: client, namespace: namespace, resource: resource, reader: objectReader{dropManagedFields: dropManagedFields},
		fallback: &encoder[T]{source: fallback, reader: objectReader{dropManagedFields: dropManagedFields}},
	}
}

func (s *source[T]) request(options metav1.ListOptions) *rest.Request {
	return s.client.Get().UseProtobufAsDefault().
		NamespaceIfScoped(s.namespace, s.namespace != "").Resource(s.resource).
		VersionedParams(&options, scheme.ParameterCodec).Timeout(Timeout(options))
}

// Timeout returns the timeout in a list's or watch's options, in the form that a client's request needs.
func Timeout(options metav1.ListOptions) time.Duration {
	if options.TimeoutSeconds == nil {
		return 0
	}
	return time.Duration(*options.TimeoutSeconds) * time.Second
}

// List implements Source.
func (s *source[T]) List(ctx context.Context, options metav1.ListOptions) ([]*Object, metav1.ListMeta, error) {
	body, err := s.request(options).Stream(ctx)
	if err != nil {
		return nil, metav1.ListMeta{}, err
	}
	defer body.Close()
	input := bufio.NewReaderSize(body, 64<<10)
	start, err := input.Peek(len(protobuf.Magic))
	if err != nil {
		return nil, metav1.ListMeta{}, fmt.Errorf("read list: %w", err)
	}
	if string(start) != protobuf.Magic {
		return s.fallback.List(ctx, options)
	}
	page := listReader{input: input, reader: &s.reader}
	if err := page.read(); err != nil {
		return nil, metav1.ListMeta{}, fmt.Errorf("read list: %w", err)
	}
	return page.items, page.list, nil
}

// Watch implements Source.
func (s *source[T]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Stream[*Object], error) {
	options.Watch = true
	streamContext, cancel := context.WithCancel(ctx)
	body, err := s.request(options).Stream(streamContext)
	if err != nil {
		cancel()
		return nil, err
	}
	return &stream{
		current:  watch.Decode(&frameDecoder{body: body, cancel: cancel, reader: &s.reader}),
		fallback: func() (watch.Stream[*Object], error) { return s.fallback.Watch(ctx, options) },
	}, nil
}

// encoder encodes the objects of a typed source.
type encoder[T typed] struct {
	source Source[T]
	reader objectReader
}

// Encoded returns a source that encodes the objects of a typed source.
func Encoded[T typed](source Source[T], dropManagedFields bool) Source[*Object] {
	return &encoder[T]{source: source, reader: objectReader{dropManagedFields: dropManagedFields}}
}

// List implements Source.
func (e *encoder[T]) List(ctx context.Context, options metav1.ListOptions) ([]*Object, metav1.ListMeta, error) {
	objects, list, err := e.source.List(ctx, options)
	if err != nil {
		return nil, list, err
	}
	items := make([]*Object, len(objects))
	for i, object := range objects {
		if items[i], err = e.reader.encode(object); err != nil {
			return nil, list, err
		}
	}
	return items, list, nil
}

// Watch implements Source.
func (e *encoder[T]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Stream[*Object], error) {
	typed, err := e.source.Watch(ctx, options)
	if err != nil {
		return nil, err
	}
	return &encodingStream[T]{Stream: typed, reader: &e.reader}, nil
}

// encodingStream encodes the objects of a typed stream.
type encodingStream[T typed] struct {
	watch.Stream[T]
	reader *objectReader
}

// Next implements watch.Stream.
func (s *encodingStream[T]) Next(ctx context.Context) (watch.Event[*Object], error) {
	event, err := s.Stream.Next(ctx)
	out := watch.Event[*Object]{Type: event.Type, Err: event.Err}
	if err != nil || event.Type == watch.Error {
		return out, err
	}
	out.Object, err = s.reader.encode(event.Object)
	return out, err
}
