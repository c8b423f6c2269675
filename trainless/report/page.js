(function(){var tip=document.getElementById('tip');
function show(e){var m=e.target.closest?e.target.closest('[data-tip]'):null;
if(!m){tip.style.opacity=0;return}
tip.textContent=m.getAttribute('data-tip');tip.style.opacity=1;
var x=Math.min(e.clientX+14,window.innerWidth-tip.offsetWidth-8),y=e.clientY+16;
if(y+tip.offsetHeight>window.innerHeight-6){y=e.clientY-tip.offsetHeight-10}
tip.style.left=Math.max(4,x)+'px';tip.style.top=y+'px'}
document.addEventListener('pointermove',show);document.addEventListener('pointerdown',show);
window.addEventListener('beforeprint',function(){document.querySelectorAll('details').forEach(function(d){d.open=true})});
document.addEventListener('scroll',function(){tip.style.opacity=0},true)})();
