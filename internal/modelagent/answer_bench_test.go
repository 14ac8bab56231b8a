package modelagent

import (
	"strings"
	"testing"

	"signalbox/internal/jsonwalk"
)

// BenchmarkChunk is the cost of understanding one chunk of a stream.
func BenchmarkChunk(b *testing.B) {
	emit := func([]byte) error { return nil }
	for name, tt := range map[string]struct {
		to  answer
		doc string
	}{
		string(apiResponses): {&responses{emit: emit}, `{"type":"response.output_text.delta","sequence_number":12,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"` + strings.Repeat("relay it ", 7) + `."}`},
		string(apiChat):      {&chat{emit: emit}, `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"` + strings.Repeat("relay it ", 7) + `."},"finish_reason":null}]}`},
	} {
		b.Run(name, func(b *testing.B) {
			doc := []byte(tt.doc)
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			for b.Loop() {
				if !jsonwalk.Valid(doc) {
					b.Fatal("invalid")
				}
				if _, err := tt.to.event("", doc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
