package main

import (
	"fmt"
	"html"
	"strings"
	"time"
	"unicode/utf8"
)

// The terminal in the picture, in lines and in units of the SVG.
const (
	rows       = 32
	lineHeight = 18
	charWidth  = 7.8
	margin     = 16
	bar        = 28
)

// rest is how long the last screen stays before the picture starts again.
const rest = 8 * time.Second

// inks are the colours that the program uses, as SGR parameters, on a dark
// ground: the picture brings its own, so that it looks the same on a light page.
var inks = map[string]string{"31": "#ff8d85", "32": "#7fd88f", "33": "#f0c674", "35": "#c9a0ff"}

// span is text of one look in one line.
type span struct {
	at    time.Duration
	look  string
	text  string
	start int // column
}

// lines puts the frames into lines.
func (r *recorder) lines() [][]span {
	out := [][]span{nil}
	look, column := "", 0
	for _, f := range r.frames {
		text := f.text
		for text != "" {
			if rest, ok := strings.CutPrefix(text, "\x1b["); ok {
				parameters, after, _ := strings.Cut(rest, "m")
				look, text = style(parameters), after
				continue
			}
			if rest, ok := strings.CutPrefix(text, "\n"); ok {
				out, column, text = append(out, nil), 0, rest
				continue
			}
			end := strings.IndexAny(text, "\x1b\n")
			if end < 0 {
				end = len(text)
			}
			piece := text[:end]
			text = text[end:]
			// Not every viewer keeps spaces at the ends, so they are places.
			left := strings.TrimLeft(piece, " ")
			if words := strings.TrimRight(left, " "); words != "" {
				out[len(out)-1] = append(out[len(out)-1], span{f.at, look, words, column + len(piece) - len(left)})
			}
			column += utf8.RuneCountInString(piece)
		}
	}
	if out[len(out)-1] == nil {
		out = out[:len(out)-1]
	}
	return out
}

func style(parameters string) string {
	var out strings.Builder
	for p := range strings.SplitSeq(parameters, ";") {
		switch {
		case p == "1":
			out.WriteString(` font-weight="700"`)
		case p == "2":
			out.WriteString(` fill="#9aa4b2"`)
		case inks[p] != "":
			fmt.Fprintf(&out, ` fill=%q`, inks[p])
		}
	}
	return out.String()
}

// svg draws it. Each piece appears at its time, and the screen scrolls as a
// terminal does. Who wants no motion sees the end at once.
func (r *recorder) svg() string {
	lines := r.lines()
	total := (r.now + rest).Seconds()
	percent := func(t time.Duration) float64 { return 100 * t.Seconds() / total }
	width, height := 2*margin+int(columns*charWidth), bar+2*margin+rows*lineHeight
	var text, moves, shows strings.Builder
	last := 0
	seen := map[time.Duration]string{}
	for i, line := range lines {
		if len(line) == 0 {
			continue
		}
		if up := i - rows + 1; up > last {
			last = up
			fmt.Fprintf(&moves, "%.3f%%{transform:translateY(%dpx)}\n", percent(line[0].at), -up*lineHeight)
		}
		for _, s := range line {
			class := seen[s.at]
			if class == "" {
				class = fmt.Sprintf("t%d", len(seen))
				seen[s.at] = class
				at := percent(s.at)
				fmt.Fprintf(&shows, "@keyframes %s{0%%,%.3f%%{opacity:0}%.3f%%,100%%{opacity:1}}.%s{animation-name:%s}\n", class, at, at+0.001, class, class)
			}
			fmt.Fprintf(&text, `<text class="%s" x="%.1f" y="%d" textLength="%.1f"%s>%s</text>`+"\n", class, margin+float64(s.start)*charWidth,
				(i+1)*lineHeight, float64(utf8.RuneCountInString(s.text))*charWidth, s.look, html.EscapeString(s.text))
		}
	}
	fmt.Fprintf(&moves, "100%%{transform:translateY(%dpx)}\n", -last*lineHeight)
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" role="img" aria-labelledby="title">
<title id="title">A terminal: signalbox run shows a plan, runs it on y, puts the agent's request to the operator, and job result tells who said what.</title>
<style>
text{white-space:pre;animation:%.2fs step-end infinite}
#screen{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#e6e9ee;animation:scroll %.2fs step-end infinite}
@keyframes scroll{0%%{transform:translateY(0)}
%s}
%s@media (prefers-reduced-motion:reduce){text{animation:none}#screen{animation:none;transform:translateY(%dpx)}}
</style>
<rect x="0.5" y="0.5" width="%d" height="%d" rx="9" fill="#171a21" stroke="#6b7484"/>
<g fill="#6b7484"><circle cx="20" cy="15" r="5"/><circle cx="38" cy="15" r="5"/><circle cx="56" cy="15" r="5"/></g>
<svg y="%d" width="%d" height="%d"><g id="screen">
%s</g></svg>
</svg>
`, width, height, width, total, total, moves.String(), shows.String(), -last*lineHeight, width-1, height-1, bar, width, rows*lineHeight+margin, text.String())
}
