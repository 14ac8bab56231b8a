package workspace

import (
	"strings"
	"sync"
	"unicode"
)

// fold gives the plainest form of a name: lower case, ASCII in place of what
// Unicode holds for a variant of it, no dots and spaces at the end. File
// systems of macOS and Windows find one file under all of these. It serves to
// find names that are denied and nothing else.
func fold(name string) string {
	if !strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) {
		return strings.TrimRight(strings.ToLower(name), ". ")
	}
	var b strings.Builder
	for _, r := range name {
		b.WriteString(plain(r))
	}
	return strings.TrimRight(b.String(), ". ")
}

// plain gives the form of one character under compatibility normalisation
// (NFKC) and case folding, where that is ASCII. Unicode has no rule for it but
// its table; this is the part of it (Unicode 14; later versions add nothing of
// the kind) that yields ASCII, written as what is regular and what is not.
func plain(r rune) string {
	switch {
	case 0xFF01 <= r && r <= 0xFF5E && r != 0xFF0F: // fullwidth forms, without the slash
		r -= 0xFF01 - '!'
	case 0x1D400 <= r && r <= 0x1D6A3: // mathematical alphabets
		r = 'a' + (r-0x1D400)%26
	case 0x1D7CE <= r && r <= 0x1D7FF: // mathematical digits
		r = '0' + (r-0x1D7CE)%10
	case 0x24B6 <= r && r <= 0x24E9: // circled letters
		r = 'a' + (r-0x24B6)%26
	case 0x1F130 <= r && r <= 0x1F149: // squared letters
		r = 'a' + r - 0x1F130
	case 0x2460 <= r && r <= 0x2468: // circled digits
		r = '1' + r - 0x2460
	case 0x2074 <= r && r <= 0x2079: // superscript digits
		r = '4' + r - 0x2074
	case 0x2080 <= r && r <= 0x2089: // subscript digits
		r = '0' + r - 0x2080
	case 0x1FBF0 <= r && r <= 0x1FBF9: // segmented digits
		r = '0' + r - 0x1FBF0
	default:
		if s, ok := irregular()[r]; ok {
			return s
		}
	}
	return string(unicode.ToLower(r))
}

// irregular are the variants of ASCII that follow no rule. Of the ligatures
// and squared words those are listed that are part of a denied name.
var irregular = sync.OnceValue(func() map[rune]string {
	m := map[rune]string{
		'\u00df': "ss", '\u0132': "ij", '\u0133': "ij", '\u1e9e': "ss", '\u20a8': "rs", '\u2116': "no", '\u246b': "12", '\u2472': "19",
		'\u3255': "25", '\u32cc': "hg", '\u32ce': "ev", '\u3372': "da", '\u3373': "au", '\u3380': "pa", '\u3381': "na", '\u338a': "pf",
		'\u338b': "nf", '\u3396': "ml", '\u33a1': "m2", '\u33a9': "pa", '\u33ac': "gpa", '\u33b5': "nv", '\u33c5': "cd", '\u33c8': "db",
		'\u33cc': "in", '\u33d2': "log", '\u33dc': "sv", '\ufb01': "fi", '\ufb02': "fl", '\ufb05': "st", '\ufb06': "st", '\U0001f12d': "cd",
		'\U0001f14d': "ss", '\U0001f16a': "mc", '\U0001f16c': "mr",
	}
	var from rune
	for _, r := range "ªa²2³3¹1ºoſsʰhʲjʳrʷwʸyˡlˢsˣxᴬaᴮbᴰdᴱeᴳgᴴhᴵiᴶjᴷkᴸlᴹmᴺnᴼoᴾpᴿrᵀtᵁuᵂwᵃaᵇbᵈdᵉeᵍgᵏkᵐmᵒoᵖpᵗtᵘuᵛvᵢiᵣrᵤuᵥvᶜcᶠf" +
		"ᶻz․.⁰0ⁱiⁿnₐaₑeₒoₓxₕhₖkₗlₘmₙnₚpₛsₜtℂcℊgℋhℌhℍhℎhℐiℑiℒlℓlℕnℙpℚqℛrℜrℝrℤzℨzℬbℭcℯeℰeℱfℳmℴoℹiⅅdⅆdⅇeⅈiⅉjⅠiⅤv" +
		"ⅩxⅬlⅭcⅮdⅯmⅰiⅴvⅹxⅼlⅽcⅾdⅿm⓪0ⱼjⱽvꟲcꟳfꟴq︳_︴_﹍_﹎_﹏_﹒.﹣-𐞥q🄫c🄬r" {
		if from == 0 {
			from = r
			continue
		}
		m[from], from = string(r), 0
	}
	return m
})
