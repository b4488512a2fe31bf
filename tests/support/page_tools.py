"""What is measured on a page in a browser."""

_CONTRASTS = """() => {
  const channel = (value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const parsed = (colour) => { const [r, g, b, a = 1] = colour.match(/[\\d.]+(?:e-?\\d+)?/g).map(Number);
    return [...[r, g, b].map((value) => colour.startsWith("color(") ? value : value / 255), a]; };
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const under = (element) => {  // what is half transparent over what is below it
    const [r, g, b, a] = parsed(getComputedStyle(element).backgroundColor);
    if (a === 1 || !element.parentElement) return [r, g, b];
    const below = under(element.parentElement);
    return [r, g, b].map((value, place) => a * value + (1 - a) * below[place]); };
  const found = [];
  for (const element of document.querySelectorAll("main *, .bar *")) {
    if (![...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
    if (!element.checkVisibility()) continue;
    const style = getComputedStyle(element), svg = element instanceof SVGElement;
    const [a, b] = [light(parsed(svg ? style.fill : style.color)), light(under(element))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) found.push([element.textContent.slice(0, 40), (a + 0.05) / (b + 0.05)]);
  }
  return found; }"""
_OPEN = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
_OVER = """() => [...document.querySelectorAll("main > *, section > *, .grid > *, .row > *")]
    .filter((one) => one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.outerHTML.slice(0, 80))"""


def reaching_over(page):
    """What lies beyond the right edge of the window, all that can be folded being open."""
    page.evaluate(_OPEN)
    width = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return page.evaluate(_OVER) + ([f"the page, by {width} px"] if width > 0 else [])


def hard_to_read(page):
    """Texts whose contrast to what is under them is below 4.5 (WCAG AA), with it."""
    page.evaluate(_OPEN)
    return page.evaluate(_CONTRASTS)
