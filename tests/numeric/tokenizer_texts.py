"""Texts that tell tokenizers apart: prose in many scripts, code, whitespace, emoji, damage, repeats, random Unicode."""

import random
import unicodedata

PROSE = {
    "latin": "The train leaves at seven o'clock; I'll bring 3 bottles of water, won't you? It's 12,345.67 km away.",
    "german": "Der Zug fährt um sieben ab, größere Koffer müssen draußen bleiben; ÜBERGRÖSSE kostet 4½ €.",
    "vietnamese": "Chuyến tàu khởi hành lúc bảy giờ, xin hãy mang theo nước uống và vé đã được đóng dấu.",
    "turkish": "Tren saat yedide kalkıyor; İstanbul'a gidecek yolcular ışıklı kapıdan girsin.",
    "greek": "Το τρένο φεύγει στις επτά· παρακαλώ φέρτε νερό, ψωμί και ένα ζεστό παλτό.",
    "cyrillic": "Поезд отправляется в семь часов; возьмите, пожалуйста, воду и тёплую одежду. Ёлка №5!",
    "ukrainian": "Потяг вирушає о сьомій; візьміть із собою воду, хліб і п’ять ґудзиків.",
    "armenian": "Գնացքը մեկնում է ժամը յոթին, խնդրում եմ ջուր բերեք։",
    "georgian": "მატარებელი შვიდ საათზე გადის, გთხოვთ წყალი წამოიღოთ.",
    "hebrew": "הרכבת יוצאת בשבע; נא להביא מים. שָׁלוֹם עֲלֵיכֶם!",
    "arabic": "يغادر القطار في الساعة السابعة، من فضلك أحضر الماء. السَّلَامُ عَلَيْكُمْ ١٢٣",
    "persian": "قطار ساعت هفت حرکت می‌کند؛ لطفاً آب بیاورید. ۱۲۳۴",
    "urdu": "ٹرین سات بجے روانہ ہوتی ہے، براہ کرم پانی لے آئیں۔",
    "syriac": "ܫܠܡܐ ܥܠܝܟܘܢ ܐܚܝ̈ ܘܚܒܪ̈ܝ",
    "devanagari": "रेलगाड़ी सात बजे चलती है, कृपया पानी लाइए। क्षत्रिय १२३",
    "bengali": "ট্রেন সাতটায় ছাড়ে, দয়া করে জল আনবেন। ১২৩",
    "gurmukhi": "ਰੇਲ ਗੱਡੀ ਸੱਤ ਵਜੇ ਚੱਲਦੀ ਹੈ, ਪਾਣੀ ਲਿਆਓ ਜੀ।",
    "gujarati": "ટ્રેન સાત વાગ્યે ઉપડે છે, મહેરબાની કરીને પાણી લાવો.",
    "tamil": "ரயில் ஏழு மணிக்கு புறப்படும், தயவுசெய்து தண்ணீர் கொண்டு வாருங்கள்.",
    "telugu": "రైలు ఏడు గంటలకు బయలుదేరుతుంది, దయచేసి నీళ్ళు తీసుకురండి.",
    "kannada": "ರೈಲು ಏಳು ಗಂಟೆಗೆ ಹೊರಡುತ್ತದೆ, ದಯವಿಟ್ಟು ನೀರು ತನ್ನಿ.",
    "malayalam": "തീവണ്ടി ഏഴു മണിക്ക് പുറപ്പെടും, ദയവായി വെള്ളം കൊണ്ടുവരിക.",
    "sinhala": "දුම්රිය හතට පිටත් වේ, කරුණාකර වතුර ගේන්න.",
    "thai": "รถไฟออกเวลาเจ็ดโมง กรุณานำน้ำมาด้วย ๑๒๓",
    "lao": "ລົດໄຟອອກເວລາເຈັດໂມງ ກະລຸນາເອົານ້ຳມາ",
    "tibetan": "མེ་འཁོར་ཆུ་ཚོད་བདུན་པར་འགྲོ་གི་རེད། ཆུ་འཁྱེར་རོགས།",
    "burmese": "ရထားက ခုနစ်နာရီမှာ ထွက်မယ်၊ ရေယူလာပါ။",
    "khmer": "រថភ្លើងចេញដំណើរនៅម៉ោងប្រាំពីរ សូមយកទឹកមកជាមួយ។",
    "amharic": "ባቡሩ በሰባት ሰዓት ይነሳል፣ እባክዎ ውሃ ያምጡ።",
    "cherokee": "ᎣᏏᏲ, ᏙᎯᏧ? ᎠᎹ ᎠᏆᏚᎵ.",
    "mongolian": "ᠭᠠᠯᠲᠤ ᠲᠡᠷᠭᠡ ᠳᠣᠯᠣᠭᠠᠨ ᠴᠠᠭ᠎ᠲᠤ",
    "chinese": "火车七点开,请带水。我們在車站等你,好嗎?一共12345元。",
    "japanese": "電車は七時に出発します。水を持ってきてください!カタカナとひらがな、ガギグ。",
    "korean": "기차는 일곱 시에 출발합니다. 물을 가져오세요. 한국어 123",
    "yoruba": "Ọkọ̀ ojú irin yóò lọ ní agogo méje; ẹ jọ̀wọ́ ẹ mú omi wá.",
    "math": "∀x∈ℝ: ⌈x⌉ = −⌊−x⌋, α ∧ ¬β → ∑ᵢ₌₁ⁿ i² = n(n+1)(2n+1)⁄6 ≈ ⅓n³, Ⅷ ① ½",
    "fraktur": "𝔗𝔥𝔢 𝔱𝔯𝔞𝔦𝔫 𝟙𝟚𝟛 𝒶𝓉 𝗌𝖾𝗏𝖾𝗇, 𐍈𐌰𐌽 𒀀𒁀 𓀀𓂀",
}

CODE = [
    '#include <stdio.h>\n\nint main(void)\n{\n\tfor (int i = 0; i < 1000000; ++i)\n\t\tprintf("%d\\n", i & 0xFF);'
    "\n"
    "\treturn 0; /* done */\n}\n",
    "def f(x: int) -> dict[str, list]:\n    '''doc'''\n    if x != 0 and x**2 >= 1e-5:\n"
    "        return {\"a\": [1, 2, 3]}\n"
    "\n\n    return None  # noqa\r\n",
    "SELECT u.id, COUNT(*) AS n FROM users u LEFT JOIN orders o ON o.uid=u.id WHERE o.t>='2024-01-01' GROUP BY 1;",
    '<div class="a b"><p>&nbsp;&lt;Hi&gt;</p></div>\n<!-- x --><br/><table><tr><td>1</td></tr></table>',
    'fn main() { let v: Vec<_> = (0..10).map(|x| x * x).collect(); println!("{:?}", v); }',
    '{"key": [1.5e10, -3, true, null, "\\u00e9\\n"], "nested": {"a":{"b":{}}}}',
    "const x = async () => await fetch(`https://example.org/${id}?q=1&r=%20`).then(r => r.json());",
    "$$\\int_0^\\infty e^{-x^2}\\,dx = \\frac{\\sqrt{\\pi}}{2}$$ \\begin{align*} a &= b \\\\ \\end{align*}",
    '\tif [ "$1" = "--help" ]; then\n\t\techo \'usage: x\' >&2; exit 1\n\tfi\n',
    "don't DON'T we'll WE'LL they've I'm I'M you're he'd HE'D 's 'S 'ſ it'ſ 'T'LL 'RE o'clock rock'n'roll",
]

EMOJI = (
    "😀 👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 1️⃣ ❤️‍🔥 🧑🏿‍🚀 ☺︎ ☺️ 👩🏻‍❤️‍💋‍👨🏾 🏴󠁧󠁢󠁥󠁮󠁧󠁿 🫠🫨🪿 🤷🏽‍♀️!! "
    "©®™ ⏰⌛ ✅❌ ♟️ 🀄 🃏 ➡️⬅️ 🆗 ㊙️ 〰️"
)

NORMAL = [
    "e\u0301 vs \u00e9, A\u030a vs \u00c5 vs \u212b, \u1e9b\u0323, o\u0323\u0302 o\u0302\u0323, \u0344 \u0958 \u2126",
    "\u1100\u1161\u11a8 \uac01 \ud55c \u1112\u1161\u11ab, \u0f71\u0f72\u0f74, \u05e9\u05c1\u05bc \u05e9\u05bc\u05c1",
    "a" + "\u0300\u0316" * 40 + "b",
    "\ufb01 \u2460 \u33a5 \uff21\uff11 \u00bd",
    "\u0301\u0301x \u093c\u0915 \u0915\u093c",
]

WORDS = [
    "",
    "a",
    " a",
    "  a",
    "\n",
    "\n\n",
    " \n ",
    "\t\t",
    "   ",
    "\u00a0x",
    "\u3000\u3000x",
    "\u180ea",
    "\u200b \u200d",
    "\ufeffBOM",
    "\r\n\r\n",
    "x\r",
    "\x00\x01\x7f\x1b",
    "\u0085\u2028\u2029",
    "\u2581\u2581x \u2581",
    "<0x0A><0x41>",
    "12345678901234567890",
    "aaaa bbbb",
    "...",
    "!!!???",
    "--- === ###",
    "Hello",
    " Hello world",
    "'",
    "''s",
    "\ufffd\ufffd",
    "ÀÉ",
    "ñ" * 50,
    "[PAD151665] [multimodal] <mask> <pad> <unk> <s> </s> <|endoftext|",
    "a\u2581b",
    "\u0120\u0120a \u010a",
]


def whitespace(rng, count=60):
    chars = [
        " ",
        " ",
        "  ",
        "\t",
        "\n",
        "\r\n",
        "\r",
        "\u00a0",
        "\u2003",
        "\u3000",
        "\x0b",
        "\x0c",
        "\u200b",
        "x",
        "1",
        ".",
        "\u2581",
    ]
    return [
        "".join(rng.choice(chars) * rng.choice((1, 1, 2, 3, 17, 40)) for _ in range(rng.randrange(1, 30)))
        for _ in range(count)
    ]


def random_unicode(rng, count=150, size=60):
    texts = []
    for _ in range(count):
        kind = rng.randrange(4)
        top = (0x250, 0x3000, 0x10000, 0x110000)[kind]
        text = ""
        while len(text) < size:
            c = rng.randrange(top)
            if 0xD800 <= c < 0xE000:
                continue
            text += chr(c) * rng.choice((1, 1, 1, 2, 3))
            if rng.random() < 0.2:
                text += rng.choice(" \n'.a1")
        texts.append(text)
    return texts


def assigned_blocks(rng, step=256):
    """Every block of code points once, in runs with spaces and digits between."""
    texts = []
    for start in (
        list(range(0, 0x33480, step)) + list(range(0xE0000, 0xE0200, step)) + list(range(0xFFF00, 0x100100, step))
    ):
        text = ""
        for c in range(start, start + step):
            if not 0xD800 <= c < 0xE000:
                text += chr(c) + rng.choice(("", "", "", " ", "1", "a"))
        texts.append(text)
    return texts


def mixed(rng, count=60):
    pool = list(PROSE.values()) + CODE + [EMOJI] + NORMAL + WORDS
    texts = []
    for _ in range(count):
        text = ""
        for _ in range(rng.randrange(2, 9)):
            part = rng.choice(pool)
            a = rng.randrange(len(part) + 1)
            text += part[a : a + rng.randrange(1, 60)] + rng.choice(("", " ", "\n"))
        texts.append(text)
    return texts


def repeats(size=1 << 20):
    """One character (or a short cycle) over and over, `size` bytes of it."""
    units = [
        "a",
        " ",
        "\n",
        "0",
        "!",
        "é",
        "語",
        "😀",
        "\u0301",
        "\u2581",
        "\t",
        "\x00",
        "ab",
        "a ",
        " \n",
        "\u0301\u0316",
        "<",
        "\u0f74\u0f72",
    ]
    return [unit * (size // len(unit.encode())) for unit in units]


def spelled(rng, added, count=80):
    """Text around, inside and against the texts of added tokens."""
    texts = []
    for _ in range(count):
        text = ""
        for _ in range(rng.randrange(1, 5)):
            token = rng.choice(added)
            kind = rng.randrange(5)
            if kind == 0:
                token = token[:-1]
            elif kind == 1:
                token = token[1:]
            elif kind == 2:
                token = token * 2
            text += (
                rng.choice(("", " ", "  ", "x", "\n", "1 ", "é", "<"))
                + token
                + rng.choice(("", " ", "y", "\n\n", ">"))
            )
        texts.append(text)
    return texts


def damaged(rng, count=8):
    """Bytes that are no UTF-8."""
    fixed = [
        b"\xff\xfe\x00a\xc3(\xe2\x82\xac\xe2\x82 \xf0\x9f\x98 "
        b"\xed\xa0\x80\xf4\x90\x80\x80 \xc0\xaf\xc1\xbf\x80\xbf end\xe6\x97",
        b"\xf0\x9f\x98\xf0\x9f\x98\x80\xf0\x9f\xe0\x80\x80\xe0\xa0\xee\x80\x80\xf8\x88\x80\x80\x80",
    ]
    pool = "".join(PROSE.values()).encode() + EMOJI.encode()
    for _ in range(count):
        a = rng.randrange(len(pool) - 3000)
        data = bytearray(pool[a : a + 3000])
        for _ in range(120):
            at = rng.randrange(len(data))
            if rng.random() < 0.5:
                data[at] = rng.randrange(256)
            else:
                del data[at]
        fixed.append(bytes(data))
    return fixed


def all_texts(seed=1, added=()):
    rng = random.Random(seed)
    texts = list(PROSE.values()) + CODE + [EMOJI] + NORMAL + WORDS
    texts += [unicodedata.normalize("NFD", t) for t in PROSE.values()]
    texts += whitespace(rng) + random_unicode(rng) + assigned_blocks(rng) + mixed(rng)
    if added:
        texts += spelled(rng, list(added))
    return texts
